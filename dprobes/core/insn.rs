// SPDX-License-Identifier: GPL-2.0

//! An instruction, and its encoding in 16 bytes.
//!
//! ```text
//! 0 op   1 a: register, width, way to exit, FROM_STACK   2 zero   4 c: target, index, number
//! 8 d: word, count
//! ```

use super::op::Op;
use super::op::Operand;
use super::refusal::Reason;
use super::register::Register;
use super::EXITS;
use super::STACK_WORDS;

/// Number of bytes of an instruction.
pub const INSN_LEN: usize = 16;

/// Bit of `a`: the operand is taken from the stack.
const FROM_STACK: u8 = 1;

/// An instruction. The place of its operands depends on [`Op::operand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    /// Command.
    pub op: Op,
    pub(super) a: u8,
    pub(super) c: u32,
    pub(super) d: u64,
}

impl Insn {
    /// Makes a command without operand, or `exit`.
    pub const fn new(op: Op) -> Self {
        Self {
            op,
            a: 0,
            c: 0,
            d: 0,
        }
    }

    /// Makes a command with a target (the number of an instruction of the point), a variable's
    /// index, a number, a bit or a count of words.
    pub const fn with(op: Op, c: u32) -> Self {
        Self { c, ..Self::new(op) }
    }

    /// Makes a command with the operand taken from the stack.
    pub const fn from_stack(op: Op) -> Self {
        Self {
            a: FROM_STACK,
            ..Self::new(op)
        }
    }

    /// Makes a `push` of a word.
    pub const fn push(word: u64) -> Self {
        Self {
            d: word,
            ..Self::new(Op::Push)
        }
    }

    /// Makes a command with a distance in the stack.
    pub const fn at(op: Op, distance: i64) -> Self {
        Self {
            d: distance as u64,
            ..Self::new(op)
        }
    }

    /// Makes a command with a register.
    pub const fn register(op: Op, register: Register) -> Self {
        Self {
            a: register.number(),
            ..Self::new(op)
        }
    }

    /// Makes a command with a width in bytes, or a way to exit.
    pub const fn width(op: Op, width: u8) -> Self {
        Self {
            a: width,
            ..Self::new(op)
        }
    }

    /// Makes a command with variables: the first, and their number.
    pub const fn variables(op: Op, first: u32, count: u64) -> Self {
        Self {
            c: first,
            d: count,
            ..Self::new(op)
        }
    }

    /// Returns true if the operand is taken from the stack.
    #[inline(always)]
    pub const fn is_from_stack(&self) -> bool {
        self.a & FROM_STACK != 0
    }

    /// Returns the target, index, number, bit or count.
    pub const fn number(&self) -> u32 {
        self.c
    }

    /// Returns the word, distance or count of variables.
    pub const fn word(&self) -> u64 {
        self.d
    }

    /// Returns the register, width or way to exit.
    pub const fn selector(&self) -> u8 {
        self.a
    }

    /// Returns the target of a jump.
    pub const fn target(&self) -> Option<u32> {
        match self.op.operand() {
            Operand::Target => Some(self.c),
            _ => None,
        }
    }

    /// Returns true if the set has to be loaded with permission: the instruction changes the probed
    /// system, or ends the process or the kernel.
    pub const fn needs_permission(&self) -> bool {
        self.op.writes() || matches!((self.op, self.a), (Op::Exit, 2..))
    }

    /// Encodes the instruction.
    pub fn to_bytes(&self) -> [u8; INSN_LEN] {
        let [c0, c1, c2, c3] = self.c.to_le_bytes();
        let [d0, d1, d2, d3, d4, d5, d6, d7] = self.d.to_le_bytes();
        [
            self.op.number(),
            self.a,
            0,
            0,
            c0,
            c1,
            c2,
            c3,
            d0,
            d1,
            d2,
            d3,
            d4,
            d5,
            d6,
            d7,
        ]
    }

    /// Decodes an instruction. Unused bytes must be zero; [`Insn::check`] checks the others.
    pub fn from_bytes(bytes: &[u8; INSN_LEN]) -> Result<Self, Reason> {
        let [op, a, 0, 0, c0, c1, c2, c3, d @ ..] = *bytes else {
            return Err(Reason::Reserved);
        };
        Ok(Self {
            op: Op::from_number(op).ok_or(Reason::Opcode(op))?,
            a,
            c: u32::from_le_bytes([c0, c1, c2, c3]),
            d: u64::from_le_bytes(d),
        })
    }

    /// Checks the operands, for a point of `len` instructions and a program of `locals` and
    /// `globals` variables.
    pub fn check(&self, len: u32, locals: u32, globals: u32) -> Result<(), Reason> {
        use super::op::Scope::Global;
        use super::op::Scope::Local;

        let Self { op, a, c, d } = *self;
        let count = |scope| match scope {
            Local => locals,
            Global => globals,
        };
        let from_stack = op.takes_from_stack() && a == FROM_STACK;
        // Unused parts of `a`, `c` and `d`.
        let unused = match op.operand() {
            Operand::None => a != 0 || c != 0 || d != 0,
            _ if from_stack => c != 0 || d != 0,
            Operand::Target | Operand::Number | Operand::Later | Operand::Bit => a != 0 || d != 0,
            Operand::Variable(_) | Operand::Words => a != 0 || d != 0,
            Operand::Word | Operand::Distance => a != 0 || c != 0,
            Operand::Variables(_) => a != 0,
            Operand::Register
            | Operand::WritableRegister
            | Operand::UserRegister
            | Operand::WritableUserRegister
            | Operand::Width
            | Operand::PortWidth
            | Operand::Exit => c != 0 || d != 0,
        };
        if unused {
            return Err(Reason::Reserved);
        }
        let register = || Register::from_number(a).ok_or(Reason::Register(a));
        let good = match op.operand() {
            Operand::None | Operand::Word => true,
            _ if from_stack => true,
            Operand::Number | Operand::Later => true,
            Operand::Target if c >= len => return Err(Reason::Target(c)),
            Operand::Target => true,
            Operand::Bit => c < u64::BITS,
            Operand::Words => u64::from(c) < STACK_WORDS as u64,
            Operand::Distance => (d as i64).unsigned_abs() < STACK_WORDS as u64,
            Operand::Variable(scope) => {
                if c >= count(scope) {
                    return Err(Reason::Variable(scope, c.into()));
                }
                true
            }
            Operand::Variables(scope) => {
                let end = u64::from(c).checked_add(d);
                if end.is_none_or(|end| end > count(scope).into()) {
                    return Err(Reason::Variable(scope, end.unwrap_or(u64::MAX)));
                }
                d != 0
            }
            Operand::Register => register().map(|_| true)?,
            Operand::WritableRegister => register()?.is_writable(),
            Operand::UserRegister => register()?.is_saved(),
            Operand::WritableUserRegister => register()?.is_writable(),
            Operand::Width => matches!(a, 1 | 2 | 4 | 8),
            Operand::PortWidth => matches!(a, 1 | 2 | 4),
            Operand::Exit => a < EXITS,
        };
        match good {
            true => Ok(()),
            false => Err(Reason::Operand),
        }
    }
}
