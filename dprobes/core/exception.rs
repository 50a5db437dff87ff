// SPDX-License-Identifier: GPL-2.0

//! Exceptions, which end a program unless it has a handler.

/// Kind of an exception. Each is a bit of `ex_mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Exception {
    /// Memory is unmapped, or must not be accessed.
    Address = 0x0001,
    /// The segment does not exist.
    Segment = 0x0002,
    /// More jumps than `jmpmax`, or too many steps in all.
    Jumps = 0x0004,
    /// More nested calls than allowed, or a return without a call.
    Calls = 0x0010,
    /// A division by zero.
    Divide = 0x0020,
    /// An operand from the stack is out of its range, or its object does not exist.
    Operand = 0x0040,
    /// Invalid instruction.
    Opcode = 0x0080,
    /// The heap is full.
    HeapFull = 0x0100,
    /// The handle of the heap is invalid.
    HeapHandle = 0x0200,
    /// The offset is beyond a piece of the heap.
    HeapOffset = 0x0400,
    /// The log is full.
    Log = 0x1000,
    /// The stack has wrapped: too many words, or none left.
    Stack = 0x2000,
    /// Raised by the program.
    User = 0x8000,
}

/// All exceptions, for tables.
pub const EXCEPTIONS: [Exception; 13] = [
    Exception::Address,
    Exception::Segment,
    Exception::Jumps,
    Exception::Calls,
    Exception::Divide,
    Exception::Operand,
    Exception::Opcode,
    Exception::HeapFull,
    Exception::HeapHandle,
    Exception::HeapOffset,
    Exception::Log,
    Exception::Stack,
    Exception::User,
];

/// Default of `ex_mask`, without full logs and wraps of the stack.
pub const MASK_DEFAULT: u32 = 0x0fff;

impl Exception {
    /// Returns the bit.
    pub const fn bit(self) -> u16 {
        self as u16
    }

    /// Returns the exception of a bit.
    pub fn from_bit(bit: u16) -> Option<Self> {
        EXCEPTIONS.into_iter().find(|one| one.bit() == bit)
    }

    /// Returns its text, as a phrase.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Address => "memory is not there",
            Self::Segment => "no such segment",
            Self::Jumps => "too many jumps",
            Self::Calls => "calls within calls too deep, or return without a call",
            Self::Divide => "division by zero",
            Self::Operand => "operand out of range",
            Self::Opcode => "no instruction",
            Self::HeapFull => "heap is full",
            Self::HeapHandle => "no such piece of the heap",
            Self::HeapOffset => "offset beyond a piece of the heap",
            Self::Log => "log is full",
            Self::Stack => "stack has wrapped",
            Self::User => "raised by the program",
        }
    }
}

/// An exception with its argument: an address, an operand, or the number that the program raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the exception.
    pub exception: Exception,
    /// Argument.
    pub argument: u64,
}

impl Fault {
    /// Makes an exception with `argument`.
    pub const fn new(exception: Exception, argument: u64) -> Self {
        Self {
            exception,
            argument,
        }
    }
}
