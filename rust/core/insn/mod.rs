// SPDX-License-Identifier: GPL-2.0

//! x86-64 instructions in long mode: their lengths, their control flow, and the ways to probe them.
//!
//! - [`Insn::decode`] finds the parts of an instruction: prefixes, opcode, ModRM, displacement,
//!   immediate.
//! - [`Insn::flow`] returns the control flow after it.
//! - [`Insn::cannot_fault`] returns true if one is surely executed.
//! - [`Boundaries`] decodes code linearly.
//!
//! The decoder knows the operand bytes of each opcode. It does not decide if a CPU has the
//! instruction: `vaddps` with reserved bits set has a length. In the maps into which vendors put
//! new instructions (0f 38, 0f 3a, VEX, EVEX, XOP), the map alone decides on the operand bytes,
//! even for opcodes that do not exist yet.
//!
//! For differences between vendors it decodes as Intel does, like the kernel's own decoder: a near
//! branch ignores the prefix 66. [`Probe::of`] refuses those.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any bytes.

mod boundaries;
mod decode;
mod flow;
mod no_fault;
mod operands;
mod tables;
#[cfg(test)]
mod tests;

pub use boundaries::Boundaries;
pub use decode::DecodeError;
pub use flow::Condition;
pub use flow::Flow;
pub use flow::LoopKind;
pub use flow::Memory;
pub use flow::Target;
pub use operands::Encoding;
pub use operands::Field;
pub use operands::Insn;
pub use operands::ModRm;
pub use operands::Prefixes;
pub use operands::Register;
pub use operands::Repeat;
pub use operands::Segment;

/// Maximum length of an instruction, in bytes; the CPU refuses a longer one.
pub const MAX_LEN: usize = 15;
