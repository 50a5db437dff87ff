// SPDX-License-Identifier: GPL-2.0

//! x86-64 instructions in long mode: how long they are, where they go, and what a kprobe may do with them.
//!
//! - [`Insn::decode`] finds the parts of an instruction: prefixes, opcode, ModRM, displacement, immediate.
//! - [`Insn::flow`] says what runs after it.
//! - [`relocate`] copies one so that it does the same at another address.
//! - [`Probe::of`] says how a probe executes one: emulated, from a copy, or not at all and by which rule.
//! - [`Emulation`] executes one on a [`Machine`].
//! - [`Insn::cannot_fault`] says whether one is surely executed.
//! - [`Compute`] executes one that a copy could execute too, within the trap.
//! - [`write_apart`] writes a function that executes one there that [`Uses`] knows.
//! - [`Uses`] says which registers one reads and writes.
//! - [`Boundaries`] walks through code.
//! - [`jump::displaceable`] says whether a jump can replace what is at a place.
//!
//! The decoder knows which operand bytes follow an opcode. It does not decide whether a CPU has the instruction:
//! `vaddps` with reserved bits set has a length. In the maps into which vendors put new instructions (0f 38, 0f 3a,
//! VEX, EVEX, XOP), the map alone decides on the operand bytes, even for opcodes that do not exist yet.
//!
//! Where vendors differ it decodes as Intel does, which is what the kernel's own decoder assumes: a near
//! branch ignores the prefix 66. [`Probe::of`] refuses those.
//!
//! Contexts: any. Nothing here allocates, locks or panics, whatever the bytes.

mod alu;
mod boundaries;
mod decode;
mod emulate;
mod flow;
pub mod jump;
mod no_fault;
mod operands;
mod probe;
mod reg_use;
mod relocate;
mod stub;
mod tables;
#[cfg(test)]
mod tests;

pub use alu::Arithmetic;
pub use alu::Compute;
pub use boundaries::Boundaries;
pub use decode::DecodeError;
pub use emulate::Emulation;
pub use emulate::Fault;
pub use emulate::Machine;
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
pub use probe::Probe;
pub use probe::Step;
pub use probe::Unprobeable;
pub use reg_use::Uses;
pub use relocate::relocate;
pub use relocate::RelocateError;
pub use stub::write_apart;
pub use stub::Apart;
pub use stub::Platform;
pub use stub::Saved;
pub use stub::MAX_APART;

/// The longest instruction, in bytes; the CPU refuses a longer one.
pub const MAX_LEN: usize = 15;
