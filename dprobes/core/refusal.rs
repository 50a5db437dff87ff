// SPDX-License-Identifier: GPL-2.0

//! Reasons why a set of programs is refused.

use core::fmt;

use super::op::Scope;

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The bytes do not begin like a set.
    NotASet,
    /// The version is unknown.
    Version(u32),
    /// The set ends early, or a length in it is wrong.
    Length,
    /// A reserved field is not zero, or a flag is unknown.
    Reserved,
    /// More programs, points or instructions than allowed, or none.
    Count,
    /// A name or symbol is missing, too long, or not plain text; or a program is called `*`, or
    /// begins or ends with a blank.
    Name,
    /// The kind of module, point or log target is unknown.
    Kind(u8),
    /// A value is larger than its limit.
    Limit(&'static str),
    /// The command is unknown.
    Opcode(u8),
    /// The target of a jump is not an instruction.
    Target(u32),
    /// The program does not have this variable.
    Variable(Scope, u64),
    /// The register is unknown.
    Register(u8),
    /// An operand is out of its range.
    Operand,
    /// The last instruction does not end the program.
    NoEnd,
    /// An instruction takes more words from the stack than are on it.
    Underflow,
    /// An instruction changes registers or memory, calls out or crashes the kernel, and the set was
    /// not loaded with permission.
    NeedsPermission,
    /// A watchpoint has no code to compare with `opcode`.
    NoOpcode,
    /// A breakpoint needs a symbol or an absolute address, a user point neither.
    Place,
    /// Only a watchpoint can have a later address, and then no other place.
    Later,
    /// Two points with a later address have the same minor number.
    LaterTwice(u32),
    /// No watchpoint of the program with this minor number has a later address.
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
            Self::Name => f.write_str(
                "a name or symbol is missing, too long, not printable, \"*\", or begins or ends \
                 with a blank",
            ),
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
                "it changes registers, memory or ports, calls out, or ends the process or the \
                 kernel, which takes UNSAFE_WRITES",
            ),
            Self::NoOpcode => f.write_str("a watchpoint has no opcode"),
            Self::Place => f.write_str("the place of the point fits neither the kernel nor a file"),
            Self::Later => {
                f.write_str("only a watchpoint's address comes later, and it has no other place")
            }
            Self::LaterTwice(minor) => {
                write!(
                    f,
                    "two points whose address comes later have the minor number {minor}"
                )
            }
            Self::NoLater(minor) => {
                write!(
                    f,
                    "the program has no watchpoint {minor} whose address comes later"
                )
            }
        }
    }
}

/// A refusal, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Number of the program in the set, from 0.
    pub program: u32,
    /// Number of the point in the program, if the refusal is about one.
    pub point: Option<u32>,
    /// Number of the instruction in the point, if the refusal is about one.
    pub insn: Option<u32>,
    /// Reason.
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
