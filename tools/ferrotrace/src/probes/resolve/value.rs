// SPDX-License-Identifier: GPL-2.0

//! Where a value is that an expression in C stands for.

#![deny(unsafe_code)]

use super::ResolveError;
use super::Result;
use crate::probes::error::Names;
use crate::probes::spec::Step;
use crate::probes::spec::Wish;
use crate::probes::types::Function;
use crate::probes::types::Id;
use crate::probes::types::Located;
use crate::probes::types::Member;
use crate::probes::types::Shape;
use crate::probes::types::Types;

/// Words that are passed in registers.
const REGISTERS: u64 = 6;

/// Where a value is.
#[derive(Clone, Debug)]
enum At {
    /// It is this word, or a part of it.
    Word(String),
    /// It is in memory, behind this address.
    Memory { base: String, offset: i64 },
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

/// A parameter at the entry of its function, by the rules of the System V ABI for x86-64.
pub(super) fn parameter(
    types: &dyn Types,
    function: &Function,
    symbol: &str,
    name: &str,
) -> Result<Value> {
    let (mut register, mut slot) = (0, 0);
    for parameter in &function.parameters {
        let words = size_of(types, parameter.ty)?.div_ceil(8).max(1);
        let in_registers = words <= 2 && register + words <= REGISTERS;
        let at = match in_registers {
            true => At::Word(format!("$arg{}", register + 1)),
            // Arguments behind those in registers are on the stack, behind the return address.
            false if words <= 1 => At::Word(format!("$arg{}", REGISTERS + slot + 1)),
            false => At::Memory {
                base: "$stack".to_owned(),
                offset: i64::try_from(8 + 8 * slot).unwrap_or(i64::MAX),
            },
        };
        if parameter.name == name {
            return Ok(Value {
                at,
                ty: parameter.ty,
                bit: 0,
                bits: None,
            });
        }
        match in_registers {
            true => register += words,
            false => slot += words,
        }
    }
    let names = function.parameters.iter();
    Err(ResolveError::NoParameter {
        symbol: symbol.to_owned(),
        name: name.to_owned(),
        others: Names(names.map(|parameter| parameter.name.clone()).collect()),
    })
}

/// The same within the function, so many bytes from its start. `None` if it is not known to be anywhere there.
pub(super) fn parameter_within(
    types: &dyn Types,
    function: &Function,
    symbol: &str,
    name: &str,
    offset: u32,
) -> Result<Option<Value>> {
    // Whether there is one of this name, and its type.
    let value = parameter(types, function, symbol, name)?;
    let at = match types.located(symbol, name, offset)? {
        // More than a word is not in one register.
        Some(Located::Register(register)) if size_of(types, value.ty)? <= 8 => {
            At::Word(register.to_owned())
        }
        Some(Located::Memory { base, offset }) => At::Memory {
            base: base.to_owned(),
            offset,
        },
        _ => return Ok(None),
    };
    Ok(Some(Value { at, ..value }))
}

fn size_of(types: &dyn Types, ty: Id) -> Result<u64> {
    Ok(match types.shape(ty)? {
        Shape::Number { size, .. } | Shape::Struct { size, .. } => size,
        Shape::Array { of, len } => size_of(types, of)?.saturating_mul(len),
        Shape::Pointer { .. } | Shape::Function | Shape::Other(_) => 8,
    })
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
    /// What a function returns.
    pub(super) fn returned(ty: Id) -> Self {
        Self {
            at: At::Word("$retval".to_owned()),
            ty,
            bit: 0,
            bits: None,
        }
    }

    /// Of a structure of two words that is passed by value: the word that it is in, and its first bit there.
    fn in_word(&self, first: &str) -> Option<(String, u64)> {
        let word = match (first.strip_prefix("$arg"), self.bit / 64) {
            (_, 0) => first.to_owned(),
            (Some(number), more) => format!("$arg{}", number.parse::<u64>().ok()? + more),
            (None, 1) => "%dx".to_owned(),
            (None, _) => return None,
        };
        Some((word, self.bit % 64))
    }

    /// Where its first whole byte is.
    fn fetch(&self) -> Option<String> {
        match &self.at {
            At::Word(word) => {
                let (word, bit) = self.in_word(word)?;
                (bit == 0).then_some(word)
            }
            At::Memory { base, offset } => {
                let offset = offset.checked_add_unsigned(self.bit / 8)?;
                Some(format!("{offset:+}({base})"))
            }
        }
    }

    /// What the pointer that it is points to.
    fn behind(self, types: &dyn Types, text: &str) -> Result<Self> {
        let misfit = |what| ResolveError::Misfit {
            text: text.to_owned(),
            what,
        };
        let Shape::Pointer { to, .. } = types.shape(self.ty)? else {
            return Err(misfit("not a pointer"));
        };
        let base = self
            .fetch()
            .ok_or(misfit("a pointer in a structure that is passed by value"))?;
        Ok(Self {
            at: At::Memory { base, offset: 0 },
            ty: to.ok_or(misfit("a pointer to void"))?,
            bit: 0,
            bits: None,
        })
    }

    /// What an expression does with it next.
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
        let fetch = || {
            self.fetch()
                .ok_or(misfit("in a structure that is passed by value"))
        };
        match shape {
            Shape::Number { .. } if matches!(wish, Wish::Text(_)) => {
                Err(misfit("a number, not text"))
            }
            Shape::Number { size, signed, .. } => self
                .number(size, signed, wish)
                .ok_or(misfit("a number of no usual size")),
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
            Shape::Function => Err(misfit("a function")),
            Shape::Other(_) => Err(misfit("of a type that is not supported")),
        }
    }

    /// The same for a number of so many bytes.
    fn number(&self, size: u64, signed: bool, wish: &Wish) -> Option<String> {
        let size = size * 8;
        if ![8, 16, 32, 64].contains(&size) {
            return None;
        }
        let bits =
            |width: u64, shift: u64, of: u64, base: &str| format!("{base}:b{width}@{shift}/{of}");
        match &self.at {
            // The part of a word.
            At::Word(word) if self.bit % 64 != 0 || self.bits.is_some() => {
                let (word, bit) = self.in_word(word)?;
                let width = self.bits.unwrap_or(size);
                (bit + width <= 64).then(|| bits(width, bit, 64, &word))
            }
            At::Memory { base, offset } if self.bits.is_some() => {
                let width = self.bits?;
                // In a number of the type's size, or in a larger one.
                let [of, begin] = [size, 64]
                    .into_iter()
                    .map(|of| [of, self.bit / of * of])
                    .find(|[of, begin]| self.bit - begin + width <= *of)?;
                let offset = offset.checked_add_unsigned(begin / 8)?;
                Some(bits(
                    width,
                    self.bit - begin,
                    of,
                    &format!("{offset:+}({base})"),
                ))
            }
            _ => {
                let fetch = self.fetch()?;
                Some(match wish {
                    Wish::Exact(ty) => format!("{fetch}:{ty}"),
                    Wish::Number(kind) => format!("{fetch}:{kind}{size}"),
                    _ if signed => format!("{fetch}:s{size}"),
                    _ => format!("{fetch}:u{size}"),
                })
            }
        }
    }
}
