// SPDX-License-Identifier: GPL-2.0

//! Programs as a file has them: places are names still.

#![deny(unsafe_code)]

use ferro_dprobes_core::Header;
use ferro_dprobes_core::Insn;
use ferro_dprobes_core::Point;

use super::source::Span;

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Target of the program: a kernel, a module's name, or a path.
    pub name: String,
    /// Where that is.
    pub name_span: Span,
    /// Its fields.
    pub header: Header,
    /// Its points.
    pub points: Vec<ProbePoint>,
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbePoint {
    /// Its fields. The offset is that of `place`.
    pub point: Point,
    /// Where it is.
    pub place: Place,
    /// True if the point is at each return of the function at the place.
    pub returns: bool,
    /// Code of the point.
    pub code: Vec<Command>,
}

/// Where a point is.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Symbol that the offset is relative to.
    pub symbol: Option<String>,
    /// Bytes from the symbol, or from the start of the file, or an address.
    pub number: i128,
    /// The value of `offset =` or `address =`.
    pub span: Span,
}

/// A command of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Instruction. With a symbol, its word is the offset from the symbol.
    pub insn: Insn,
    /// The symbol whose address is pushed.
    pub symbol: Option<Symbol>,
    /// Where the command is.
    pub span: Span,
}

/// A name that stands for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name.
    pub name: String,
    /// Where it is.
    pub span: Span,
}
