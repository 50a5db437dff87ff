// SPDX-License-Identifier: GPL-2.0

//! Execution of instructions in the trap of the breakpoint that replaces them.
//!
//! - [`Probe::of`] returns how a probe executes an instruction: by emulation, from a copy, or not
//!   at all and by which rule.
//! - [`Emulation`] executes one on a [`Machine`].
//! - [`Compute`] executes one in the trap that a copy could execute, too.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any bytes.

mod alu;
mod emulate;
mod machine;
mod probe;
#[cfg(test)]
mod tests;

pub use alu::Compute;
pub use emulate::Emulation;
pub use machine::Arithmetic;
pub use machine::Fault;
pub use machine::Machine;
pub use probe::Probe;
pub use probe::Step;
pub use probe::Unprobeable;
