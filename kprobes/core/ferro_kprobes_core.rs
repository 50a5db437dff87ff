// SPDX-License-Identifier: GPL-2.0

//! Pure logic of the kprobes engine: the ways to probe an instruction.
//!
//! - [`Probe::of`] returns how a probe executes an instruction: by emulation, from a copy, or not
//!   at all and by which rule.
//! - [`relocate`] copies one with the same effect to another address.
//! - [`Emulation`] executes one on a [`Machine`].
//! - [`Compute`] executes one in the trap that a copy could execute, too.
//! - [`write_apart`] writes a stub that executes one that [`Uses`] knows.
//! - [`Uses`] has the registers that one reads and writes.
//! - [`jump::displaceable`] checks if a jump can replace the code at an address.
//! - [`blacklist_names::refuses`] refuses symbols by their names.
//!
//! [`ferro_core::insn`] decodes the instructions.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any bytes.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

pub mod jump;
mod reg_use;
mod relocate;
mod stub;
#[cfg(test)]
mod tests;

pub use ferro_core::blacklist_names;
pub use ferro_core::exec::Arithmetic;
pub use ferro_core::exec::Compute;
pub use ferro_core::exec::Emulation;
pub use ferro_core::exec::Fault;
pub use ferro_core::exec::Machine;
pub use ferro_core::exec::Probe;
pub use ferro_core::exec::Step;
pub use ferro_core::exec::Unprobeable;
pub use reg_use::Uses;
pub use relocate::relocate;
pub use relocate::RelocateError;
pub use stub::write_apart;
pub use stub::Apart;
pub use stub::Platform;
pub use stub::Saved;
pub use stub::MAX_APART;
