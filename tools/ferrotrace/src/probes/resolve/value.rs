// SPDX-License-Identifier: GPL-2.0

//! Where a value is that an expression in C stands for.

#![deny(unsafe_code)]

use super::ResolveError;
use super::Result;
use super::TypesError;
use crate::near::Names;
use crate::probes::model::Kind;
use crate::probes::spec::Step;
use crate::probes::spec::Wish;
use crate::probes::types::AtEntry;
use crate::probes::types::Convention;
use crate::probes::types::Function;
use crate::probes::types::Id;
use crate::probes::types::Located;
use crate::probes::types::Member;
use crate::probes::types::Named;
use crate::probes::types::Parameter;
use crate::probes::types::Shape;
use crate::probes::types::Types;
use crate::probes::types::abi;
use crate::probes::types::layout;
use crate::probes::types::size_of;

/// Why a value is nothing that a probe is told.
const UNREADABLE: &str =
    "not where a probe can read it: in a register for floating point, or in parts of several";

/// Why a number is none that a probe is told.
const NO_SIGN: &str =
    "may be negative, and a probe reads a part of a word without a sign: :u or :x takes that";

/// Registers that carry arguments.
const REGISTERS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];

/// Registers that carry results.
const RESULTS: [&str; 2] = ["$retval", "%dx"];

/// The most that the kernel counts arguments.
const ARGUMENTS_MAX: u64 = 32;

/// Bits of a word.
const WORD: u64 = 64;

/// A part of a value that is not all in one place.
#[derive(Clone, Debug)]
struct Piece {
    /// Its first bit in the value.
    bit: u64,
    /// How many it has.
    bits: u64,
    /// Where it is, if a probe can read that.
    word: Option<String>,
}

/// Where a value is.
#[derive(Clone, Debug)]
enum At {
    /// In words, of which it is a part or which are parts of it.
    Pieces(Vec<Piece>),
    /// In memory, behind this address.
    Memory { base: String, offset: i64 },
}

impl At {
    /// In words, from the first bit on.
    fn words(words: impl IntoIterator<Item = Option<String>>) -> Self {
        let words = words.into_iter().zip((0..).step_by(64));
        let pieces = words.map(|(word, bit)| Piece {
            bit,
            bits: WORD,
            word,
        });
        Self::Pieces(pieces.collect())
    }

    /// On the stack, where the caller has put arguments. `is_kept`: these are looked at when the function returns, and the kernel keeps
    /// arguments only.
    fn stack(slot: u64, size: u64, is_kept: bool) -> Self {
        let argument = |slot: u64| {
            let number = slot
                .checked_add(7)
                .filter(|number| *number <= ARGUMENTS_MAX);
            number.map(|number| format!("$arg{number}"))
        };
        let words = size.div_ceil(8);
        match words <= 1 || is_kept {
            true => {
                Self::words((slot..slot.saturating_add(words.min(ARGUMENTS_MAX))).map(argument))
            }
            false => Self::Memory {
                base: "$stack".to_owned(),
                // The return address comes first.
                offset: i64::try_from(slot.saturating_mul(8).saturating_add(8)).unwrap_or(i64::MAX),
            },
        }
    }

    /// Where DWARF says that it is.
    fn located(located: Located, name: impl Fn(&str) -> Option<String>) -> Self {
        match located {
            Located::Register(register) => Self::words([name(register)]),
            Located::Memory { base, offset } => match name(base) {
                Some(base) => Self::Memory { base, offset },
                None => Self::Pieces(Vec::new()),
            },
            Located::Pieces(pieces) => {
                let mut bit = 0;
                let pieces = pieces.into_iter().map(|(bits, register)| {
                    let piece = Piece {
                        bit,
                        bits,
                        word: register.and_then(&name),
                    };
                    bit = bit.saturating_add(bits);
                    piece
                });
                Self::Pieces(pieces.collect())
            }
        }
    }
}

/// A value.
#[derive(Clone, Debug)]
pub(super) struct Value {
    at: At,
    ty: Id,
    /// Bits from there to its first one.
    bit: u64,
    /// Of a bit field: how many it has.
    bits: Option<u64>,
}

/// A function, for messages and look-ups.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) types: &'a dyn Types,
    pub(super) function: &'a Function,
    pub(super) named: Named<'a>,
    /// The kind of the probe.
    pub(super) kind: Kind,
}

impl Of<'_> {
    fn elsewhere(&self, name: &str, why: &'static str) -> ResolveError {
        ResolveError::Elsewhere {
            symbol: self.named.name.to_owned(),
            name: name.to_owned(),
            why,
        }
    }

    fn parameter(&self, name: &str) -> Result<(usize, &Parameter)> {
        let parameters = &self.function.parameters;
        let mut all = parameters.iter().enumerate();
        all.find(|(_, parameter)| parameter.name == name)
            .ok_or_else(|| ResolveError::NoParameter {
                symbol: self.named.name.to_owned(),
                name: name.to_owned(),
                others: Names(parameters.iter().map(|one| one.name.clone()).collect()),
            })
    }

    /// Finds a parameter at the entry: where DWARF says that it is, or else where the calling convention has it.
    pub(super) fn at_entry(&self, name: &str) -> Result<Value> {
        let (index, parameter) = self.parameter(name)?;
        let size = size_of(self.types, parameter.ty)?;
        let is_kept = self.kind == Kind::Return;
        // The kernel keeps arguments until a function returns, and no registers.
        let word = |register: &str| {
            let number = REGISTERS.iter().position(|known| *known == register);
            match number {
                Some(number) => Some(format!("$arg{}", number + 1)),
                None => (!is_kept).then(|| register.to_owned()),
            }
        };
        let at = match self.types.at_entry(self.named, name)? {
            AtEntry::Located(Located::Memory {
                base: "%sp",
                offset: offset @ 8..,
            }) if offset % 8 == 0 => At::stack(offset.unsigned_abs() / 8 - 1, size, is_kept),
            AtEntry::Located(located) => At::located(located, word),
            AtEntry::Removed => {
                return Err(self.elsewhere(
                    name,
                    "the compiler does not pass it, or DWARF does not say where it is",
                ));
            }
            AtEntry::ByConvention => self.by_convention(index, name)?,
        };
        Ok(Value::new(at, parameter.ty))
    }

    /// Finds a parameter by the calling convention.
    fn by_convention(&self, index: usize, name: &str) -> Result<At> {
        let before = self.function.parameters.get(..=index).unwrap_or_default();
        let before = before.iter().map(|parameter| parameter.ty);
        let result = self.function.returns;
        self.check_convention(name, result.into_iter().chain(before.clone()))?;
        let unknown = || self.elsewhere(name, "where it is depends on a type that is not known");
        let layout = |ty| layout(self.types, ty)?.ok_or_else(unknown);
        let result = result.map(layout).transpose()?;
        let parameters = before.map(layout).collect::<Result<Vec<_>>>()?;
        let place = abi::argument(result.as_ref(), &parameters).ok_or_else(unknown)?;
        let size = parameters.last().map_or(0, |layout| layout.size);
        Ok(self.at_place(place, size))
    }

    fn at_place(&self, place: abi::Place, size: u64) -> At {
        let is_kept = self.kind == Kind::Return;
        match place {
            abi::Place::Words(words) => At::words(words.into_iter().map(|word| match word {
                abi::Word::General(number) => Some(format!("$arg{}", number + 1)),
                abi::Word::Elsewhere => None,
            })),
            abi::Place::Stack(slot) => At::stack(slot, size, is_kept),
            abi::Place::Behind(place) => {
                let pointer = Value::new(self.at_place(*place, 8), 0);
                match pointer.fetch() {
                    Some(base) => At::Memory { base, offset: 0 },
                    None => At::Pieces(Vec::new()),
                }
            }
        }
    }

    /// Refuses functions that are not called by the convention.
    fn check_convention(&self, name: &str, mut types: impl Iterator<Item = Id>) -> Result<()> {
        match self.function.convention {
            Convention::SystemV => Ok(()),
            Convention::Changed => {
                Err(self.elsewhere(name, "the compiler has changed how this function is called"))
            }
            Convention::Other => {
                let is_scalar = |ty| {
                    let shape = self.types.shape(ty);
                    shape.map(|shape| match shape {
                        Shape::Number { size, .. } | Shape::Float { size, .. } => size <= 8,
                        Shape::Pointer { .. } => true,
                        _ => false,
                    })
                };
                match types.try_fold(true, |all, ty| Ok::<_, TypesError>(all && is_scalar(ty)?))? {
                    true => Ok(()),
                    false => Err(self.elsewhere(
                        name,
                        "the convention of its language says where it is only to the compiler",
                    )),
                }
            }
        }
    }

    /// Finds a parameter within the function, so many bytes from its start. `None` if it is not known to be anywhere there.
    pub(super) fn within(&self, name: &str, offset: u32) -> Result<Option<Value>> {
        let (_, parameter) = self.parameter(name)?;
        let size = size_of(self.types, parameter.ty)?;
        let at = match self.types.located(self.named, name, offset)? {
            // More than a word is not in one register.
            Some(Located::Register(_)) if size > 8 => return Ok(None),
            Some(located) => At::located(located, |register| Some(register.to_owned())),
            None => return Ok(None),
        };
        Ok(Some(Value::new(at, parameter.ty)))
    }

    /// Finds what the function returns. `None` if that is nothing.
    pub(super) fn returned(&self) -> Result<Option<Value>> {
        const NAME: &str = "$retval";
        let Some(ty) = self.function.returns else {
            return Ok(None);
        };
        self.check_convention(NAME, [ty].into_iter())?;
        let unknown = || self.elsewhere(NAME, "where it is depends on a type that is not known");
        let layout = layout(self.types, ty)?.ok_or_else(unknown)?;
        let at = match abi::returned(&layout) {
            abi::Returned::Words(words) => At::words(words.into_iter().map(|word| match word {
                abi::Word::General(number) => RESULTS.get(number).map(|name| (*name).to_owned()),
                abi::Word::Elsewhere => None,
            })),
            abi::Returned::Memory => At::Memory {
                base: NAME.to_owned(),
                offset: 0,
            },
        };
        Ok(Some(Value::new(at, ty)))
    }
}

/// The names of the members of a structure.
fn names(types: &dyn Types, ty: Id) -> Result<Names> {
    let mut all = Vec::new();
    for member in types.members(ty)? {
        match member.name.is_empty() {
            true => all.extend(names(types, member.ty)?.0),
            false => all.push(member.name),
        }
    }
    Ok(Names(all))
}

/// A member of a structure, or of one without a name in it.
fn member(types: &dyn Types, ty: Id, name: &str) -> Result<Option<Member>> {
    for mut found in types.members(ty)? {
        if found.name == name {
            return Ok(Some(found));
        }
        if found.name.is_empty() {
            if let Some(inner) = member(types, found.ty, name)? {
                found.bit_offset += inner.bit_offset;
                let bit_offset = found.bit_offset;
                return Ok(Some(Member {
                    bit_offset,
                    ..inner
                }));
            }
        }
    }
    Ok(None)
}

impl Value {
    fn new(at: At, ty: Id) -> Self {
        Self {
            at,
            ty,
            bit: 0,
            bits: None,
        }
    }

    /// Returns the word that has so many bits from its first one on, and its first bit there.
    fn in_word(&self, width: u64) -> Option<(&str, u64)> {
        let At::Pieces(pieces) = &self.at else {
            return None;
        };
        let mut pieces = pieces.iter().filter_map(|piece| {
            let bit = self.bit.checked_sub(piece.bit)?;
            (bit.checked_add(width)? <= piece.bits).then_some((piece, bit))
        });
        let (piece, bit) = pieces.next()?;
        Some((piece.word.as_deref()?, bit))
    }

    /// Where its first whole byte is.
    fn fetch(&self) -> Option<String> {
        match &self.at {
            At::Pieces(_) => {
                let (word, bit) = self.in_word(8)?;
                (bit == 0).then(|| word.to_owned())
            }
            At::Memory { base, offset } => {
                let offset = offset.checked_add_unsigned(self.bit / 8)?;
                Some(format!("{offset:+}({base})"))
            }
        }
    }

    /// Returns the target of a pointer.
    fn behind(self, types: &dyn Types, text: &str) -> Result<Self> {
        let misfit = |what| ResolveError::Misfit {
            text: text.to_owned(),
            what,
        };
        let Shape::Pointer { to, .. } = types.shape(self.ty)? else {
            return Err(misfit("not a pointer"));
        };
        let base = self.fetch().ok_or(misfit(UNREADABLE))?;
        Ok(Self {
            at: At::Memory { base, offset: 0 },
            ty: to.ok_or(misfit("a pointer to void"))?,
            bit: 0,
            bits: None,
        })
    }

    /// Applies the next step of an expression.
    pub(super) fn step(self, types: &dyn Types, step: &Step, text: &str) -> Result<Self> {
        let shape = types.shape(self.ty)?;
        match (step, &shape) {
            (Step::Behind, _) => self.behind(types, text),
            (Step::Member(_) | Step::Index(_), Shape::Pointer { .. }) => {
                let behind = self.behind(types, text)?;
                match step {
                    Step::Index(index) => behind.element(types, *index),
                    // Whether it is written with an arrow or with a dot.
                    _ => behind.step(types, step, text),
                }
            }
            (Step::Member(name), Shape::Struct { name: of, .. }) => {
                let Some(found) = member(types, self.ty, name)? else {
                    return Err(ResolveError::NoMember {
                        of: of.clone(),
                        name: name.clone(),
                        others: names(types, self.ty)?,
                    });
                };
                Ok(Self {
                    bit: self.bit.saturating_add(found.bit_offset),
                    bits: found.bits,
                    ty: found.ty,
                    at: self.at,
                })
            }
            (Step::Index(index), Shape::Array { of, .. }) => {
                let ty = *of;
                Self { ty, ..self }.element(types, *index)
            }
            (Step::Member(_), _) => Err(ResolveError::Misfit {
                text: text.to_owned(),
                what: "not a structure",
            }),
            (Step::Index(_), _) => Err(ResolveError::Misfit {
                text: text.to_owned(),
                what: "not an array",
            }),
        }
    }

    /// The element of this number, when this is the first.
    fn element(self, types: &dyn Types, index: u64) -> Result<Self> {
        let bytes = size_of(types, self.ty)?.saturating_mul(index);
        let bit = self.bit.saturating_add(bytes.saturating_mul(8));
        Ok(Self { bit, ..self })
    }

    /// The kernel's words for it.
    pub(super) fn finish(self, types: &dyn Types, wish: &Wish, text: &str) -> Result<String> {
        let misfit = |what| ResolveError::Misfit {
            text: text.to_owned(),
            what,
        };
        let is_char = |ty| {
            let shape = types.shape(ty);
            shape.map(|shape| matches!(shape, Shape::Number { is_char: true, .. }))
        };
        let shape = types.shape(self.ty)?;
        let fetch = || self.fetch().ok_or(misfit(UNREADABLE));
        match shape {
            Shape::Number { .. } if matches!(wish, Wish::Text(_)) => {
                Err(misfit("a number, not text"))
            }
            Shape::Number { size, .. } if ![1, 2, 4, 8].contains(&size) => {
                Err(misfit("a number of no usual size"))
            }
            Shape::Number { size, signed, .. } => self.number(size, signed, wish).map_err(misfit),
            Shape::Pointer { to, is_const } => {
                let text_len = match wish {
                    Wish::Text(len) => Some(len.as_str()),
                    Wish::None if is_const && to.map_or(Ok(false), is_char)? => Some(""),
                    _ => None,
                };
                let fetch = fetch()?;
                let to_function = match to {
                    Some(to) => types.shape(to)? == Shape::Function,
                    None => false,
                };
                Ok(match (text_len, wish) {
                    (Some(len), _) => format!("+0({fetch}):string{len}"),
                    (None, Wish::Exact(ty)) => format!("{fetch}:{ty}"),
                    (None, Wish::Number(kind)) => format!("{fetch}:{kind}64"),
                    (None, _) if to_function => format!("{fetch}:symbol"),
                    (None, _) => format!("{fetch}:x64"),
                })
            }
            Shape::Array { of, .. } => match wish {
                Wish::Text(len) => Ok(format!("{}:string{len}", fetch()?)),
                Wish::None if is_char(of)? => Ok(format!("{}:string", fetch()?)),
                _ => Err(misfit(
                    "an array: name an element, [0], or its type, string",
                )),
            },
            Shape::Struct { name, .. } => Err(ResolveError::Whole {
                text: text.to_owned(),
                of: name,
                others: names(types, self.ty)?,
            }),
            Shape::Float { .. } | Shape::Vector { .. } => {
                Err(misfit("a floating-point number, which probes cannot read"))
            }
            Shape::Function => Err(misfit("a function")),
            Shape::Other(_) => Err(misfit("of a type that is not supported")),
        }
    }

    /// Returns the kernel's words for a number of so many bytes, or why there are none.
    fn number(
        &self,
        size: u64,
        signed: bool,
        wish: &Wish,
    ) -> std::result::Result<String, &'static str> {
        let size = size * 8;
        let bits = |width: u64, shift: u64, of: u64, base: &str| {
            let takes_none = matches!(wish, Wish::Number('u' | 'x'));
            match signed && !takes_none {
                true => Err(NO_SIGN),
                false => Ok(format!("{base}:b{width}@{shift}/{of}")),
            }
        };
        let plain = |fetch: &str| match wish {
            Wish::Exact(ty) => format!("{fetch}:{ty}"),
            Wish::Number(kind) => format!("{fetch}:{kind}{size}"),
            _ if signed => format!("{fetch}:s{size}"),
            _ => format!("{fetch}:u{size}"),
        };
        match (&self.at, self.bits) {
            (At::Pieces(_), _) => {
                let width = self.bits.unwrap_or(size);
                let (word, bit) = self.in_word(width).ok_or(UNREADABLE)?;
                match bit != 0 || self.bits.is_some() {
                    // The part of a word.
                    true => bits(width, bit, WORD, word),
                    false => Ok(plain(word)),
                }
            }
            (At::Memory { base, offset }, Some(width)) => {
                // In a number of the type's size, or in a larger one.
                let found = [size, WORD]
                    .into_iter()
                    .map(|of| [of, self.bit / of * of])
                    .find(|[of, begin]| self.bit - begin + width <= *of);
                let [of, begin] = found.ok_or(UNREADABLE)?;
                let offset = offset.checked_add_unsigned(begin / 8).ok_or(UNREADABLE)?;
                bits(width, self.bit - begin, of, &format!("{offset:+}({base})"))
            }
            (At::Memory { .. }, None) => Ok(plain(&self.fetch().ok_or(UNREADABLE)?)),
        }
    }
}
