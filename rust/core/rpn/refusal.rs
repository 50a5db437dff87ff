// SPDX-License-Identifier: GPL-2.0

//! Why a set of programs is not taken.

use core::fmt;

use super::op::Scope;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not begin as a set does.
    NotASet,
    /// A version that is not known.
    Version(u32),
    /// It ends early, or a length in it is wrong.
    Length,
    /// Something that has to be zero is not, or a flag is not known.
    Reserved,
    /// More programs, points or instructions than there may be, or none.
    Count,
    /// A name or symbol is missing, too long, or no plain text; or a program is called `*`, or begins or ends with a blank.
    Name,
    /// No such kind of module, point or target of the log.
    Kind(u8),
    /// A limit is larger than there may be.
    Limit(&'static str),
    /// No such command.
    Opcode(u8),
    /// A jump to where there is no instruction.
    Target(u32),
    /// A variable that the program does not have.
    Variable(Scope, u64),
    /// No such register.
    Register(u8),
    /// An operand out of its range.
    Operand,
    /// The last instruction is not one that ends.
    NoEnd,
    /// It takes more words from the stack than are on it.
    Underflow,
    /// It changes registers or memory, calls out or crashes the kernel, and the set was not loaded with permission.
    NeedsPermission,
    /// A watchpoint has no code that could be compared with `opcode`.
    NoOpcode,
    /// A breakpoint needs a symbol or an absolute address, a user point neither.
    Place,
    /// Only the address of a watchpoint comes later, and then it has no other place.
    Later,
    /// Two points whose address comes later have the same minor number.
    LaterTwice(u32),
    /// No watchpoint of the program with this minor number has an address that comes later.
    NoLater(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotASet => f.write_str("not a set of probe programs"),
            Self::Version(version) => write!(f, "version {version} is not known"),
            Self::Length => f.write_str("it ends early, or a length is wrong"),
            Self::Reserved => f.write_str("a reserved field or an unknown flag is set"),
            Self::Count => f.write_str("too many programs, points or instructions, or none"),
            Self::Name => {
                f.write_str("a name or symbol is missing, too long, not printable, \"*\", or begins or ends with a blank")
            }
            Self::Kind(kind) => write!(f, "kind {kind} is not known"),
            Self::Limit(name) => write!(f, "{name} is larger than it may be"),
            Self::Opcode(number) => write!(f, "there is no command {number}"),
            Self::Target(target) => write!(f, "jump to instruction {target}, which is not there"),
            Self::Variable(scope, index) => {
                let name = match scope {
                    Scope::Local => "local",
                    Scope::Global => "global",
                };
                write!(f, "the program has no {name} variable {index}")
            }
            Self::Register(number) => write!(f, "there is no register {number}"),
            Self::Operand => f.write_str("an operand is out of its range"),
            Self::NoEnd => f.write_str("the program runs past its last instruction"),
            Self::Underflow => f.write_str("it takes more words from the stack than are on it"),
            Self::NeedsPermission => f.write_str(
                "it changes registers, memory or ports, calls out, or ends the process or the kernel, which takes UNSAFE_WRITES",
            ),
            Self::NoOpcode => f.write_str("a watchpoint has no opcode"),
            Self::Place => f.write_str("the place of the point fits neither the kernel nor a file"),
            Self::Later => f.write_str("only a watchpoint's address comes later, and it has no other place"),
            Self::LaterTwice(minor) => {
                write!(f, "two points whose address comes later have the minor number {minor}")
            }
            Self::NoLater(minor) => {
                write!(f, "the program has no watchpoint {minor} whose address comes later")
            }
        }
    }
}

/// Why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Number of the program in the set, from 0.
    pub program: u32,
    /// Number of the point in the program, if it is about one.
    pub point: Option<u32>,
    /// Number of the instruction in the point, if it is about one.
    pub insn: Option<u32>,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}", self.program)?;
        if let Some(point) = self.point {
            write!(f, " point {point}")?;
        }
        if let Some(insn) = self.insn {
            write!(f, " instruction {insn}")?;
        }
        write!(f, ": {}", self.reason)
    }
}
