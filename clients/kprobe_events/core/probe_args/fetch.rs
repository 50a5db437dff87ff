// SPDX-License-Identifier: GPL-2.0

//! Sources of an argument's value.
//!
//! Contexts: those of [`Env`].

use super::number;
use super::Type;

/// Maximum number of memory accesses for a value.
const STEPS_MAX: usize = 6;

/// Number of bytes of text that are read at once.
const PIECE: usize = 64;

/// Unit in which memory is mapped or not.
const PAGE: u64 = 4096;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Register {
    Ax,
    Bx,
    Cx,
    Dx,
    Si,
    Di,
    Bp,
    Sp,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    Ip,
    Flags,
}

/// Start of a value's computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Register(Register),
    /// From 0.
    Argument(u8),
    StackPointer,
    /// From 0.
    StackWord(u16),
    Returned,
    Calls {
        user: bool,
    },
}

/// Source of a value: a word, and the offsets of consecutive memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    base: Base,
    /// Offsets in the order of use; those from `len` on are unused and 0.
    steps: [i32; STEPS_MAX],
    len: u8,
}

/// Environment of a probe hit.
pub trait Env {
    /// Returns a register.
    fn register(&self, register: Register) -> u64;
    /// Returns the argument of this number, from 0, at the entry of the function.
    fn argument(&self, index: u8) -> Option<u64>;
    /// Returns the stack word of this number, from 0.
    fn stack(&self, index: u16) -> Option<u64>;
    /// Returns the return value of the function.
    fn returned(&self) -> u64;
    /// Reads memory, of the kernel or of the process; returns false if it is not mapped.
    fn read(&self, at: u64, to: &mut [u8]) -> bool;
}

impl Register {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ax" => Self::Ax,
            "bx" => Self::Bx,
            "cx" => Self::Cx,
            "dx" => Self::Dx,
            "si" => Self::Si,
            "di" => Self::Di,
            "bp" => Self::Bp,
            "sp" => Self::Sp,
            "r8" => Self::R8,
            "r9" => Self::R9,
            "r10" => Self::R10,
            "r11" => Self::R11,
            "r12" => Self::R12,
            "r13" => Self::R13,
            "r14" => Self::R14,
            "r15" => Self::R15,
            "ip" => Self::Ip,
            "flags" => Self::Flags,
            _ => return None,
        })
    }
}

impl Base {
    fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix('%') {
            return Register::parse(name).map(Self::Register);
        }
        let name = text.strip_prefix('$')?;
        match name {
            "retval" => return Some(Self::Returned),
            "stack" => return Some(Self::StackPointer),
            "kstack" => return Some(Self::Calls { user: false }),
            "ustack" => return Some(Self::Calls { user: true }),
            _ => (),
        }
        if let Some(index) = name.strip_prefix("arg") {
            // From 1.
            let index = number(index)?.checked_sub(1)?;
            return (index < 32).then_some(Self::Argument(index.try_into().ok()?));
        }
        let index = number(name.strip_prefix("stack")?)?;
        (index < 1024).then_some(Self::StackWord(index.try_into().ok()?))
    }
}

impl Fetch {
    /// Parses a source, without the type.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = [0; STEPS_MAX];
        let mut rest = text;
        let mut len = 0_usize;
        // The outermost offset is used last.
        while let Some(sign @ ('+' | '-')) = rest.chars().next() {
            let (offset, inner) = rest.get(1..)?.split_once('(')?;
            let offset = offset.strip_prefix('u').unwrap_or(offset);
            let offset = i64::try_from(number(offset)?).ok()?;
            let offset = if sign == '-' {
                offset.checked_neg()?
            } else {
                offset
            };
            *steps.get_mut(len)? = offset.try_into().ok()?;
            len = len.checked_add(1)?;
            rest = inner.strip_suffix(')')?;
        }
        steps.get_mut(..len)?.reverse();
        let base = Base::parse(rest)?;
        // A stack cannot be dereferenced.
        if len != 0 && matches!(base, Base::Calls { .. }) {
            return None;
        }
        Some(Self {
            base,
            steps,
            len: len.try_into().ok()?,
        })
    }

    fn steps(&self) -> &[i32] {
        self.steps.get(..self.len.into()).unwrap_or_default()
    }

    /// Returns true if the value is in memory.
    pub fn is_in_memory(&self) -> bool {
        self.len != 0
    }

    /// Returns true if only the return of a function has the value.
    pub fn is_of_return(&self) -> bool {
        self.base == Base::Returned
    }

    /// Returns true if only the entry of a function has the value.
    pub fn is_of_entry(&self) -> bool {
        matches!(self.base, Base::Argument(_))
    }

    /// Returns the type of a stack, if it is one.
    pub fn stack(&self) -> Option<Type> {
        match self.base {
            Base::Calls { user } => Some(Type::Stack { user }),
            _ => None,
        }
    }

    fn base(&self, env: &impl Env) -> Option<u64> {
        match self.base {
            Base::Register(register) => Some(env.register(register)),
            Base::Argument(index) => env.argument(index),
            Base::StackPointer => Some(env.register(Register::Sp)),
            Base::StackWord(index) => env.stack(index),
            Base::Returned => Some(env.returned()),
            Base::Calls { .. } => None,
        }
    }

    /// Returns the address of the value, or without steps the word itself.
    fn place(&self, env: &impl Env) -> Option<u64> {
        let mut word = self.base(env)?;
        let Some((last, before)) = self.steps().split_last() else {
            return Some(word);
        };
        for offset in before {
            word = read_word(env, word.wrapping_add_signed((*offset).into()), 8)?;
        }
        Some(word.wrapping_add_signed((*last).into()))
    }

    /// Returns the number; `None` if it cannot be read.
    pub fn number(&self, ty: Type, env: &impl Env) -> Option<u64> {
        let mut word = self.place(env)?;
        if self.is_in_memory() {
            word = read_word(env, word, ty.size())?;
        }
        Some(ty.of_word(word))
    }

    /// Passes the text to `to` in pieces, at most `len` bytes with a NUL: the bytes that exist,
    /// without more than `len`. Returns false if it cannot be read; the readable bytes have been
    /// passed.
    pub fn text(&self, len: usize, env: &impl Env, mut to: impl FnMut(&[u8])) -> bool {
        let Some(mut at) = self.place(env) else {
            return false;
        };
        // Leaves room for the NUL.
        let mut left = len.saturating_sub(1);
        while left != 0 {
            let in_page = PAGE.wrapping_sub(at % PAGE);
            let most = usize::try_from(in_page)
                .unwrap_or(PIECE)
                .min(PIECE)
                .min(left);
            let mut piece = [0; PIECE];
            let Some(piece) = piece.get_mut(..most) else {
                return false;
            };
            if !env.read(at, piece) {
                return false;
            }
            let end = piece.iter().position(|byte| *byte == 0);
            to(piece.get(..end.unwrap_or(most)).unwrap_or_default());
            if end.is_some() {
                break;
            }
            left = left.saturating_sub(most);
            at = at.wrapping_add(most as u64);
        }
        true
    }
}

/// Returns the number of `size` bytes at an address.
fn read_word(env: &impl Env, at: u64, size: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    let there = env.read(at, bytes.get_mut(..size)?);
    there.then(|| u64::from_le_bytes(bytes))
}
