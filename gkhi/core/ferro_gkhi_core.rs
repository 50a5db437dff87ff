// SPDX-License-Identifier: GPL-2.0

//! Bookkeeping of the hook registry: the hooks, their exits, the order and the states of the exits.
//!
//! Contexts: any that the caller's [`Lists`] allow; callers serialise. It allocates only through
//! [`Lists`].
//!
//! A change of several exits is made in two steps. [`Table::stage`] checks whether all of it is
//! allowed and stores the new states; while these are put into effect, [`Exit::next`] returns the
//! new state and [`Exit::state`] the present one. Then [`Table::commit`] makes the new states the
//! present ones, or [`Table::abort`] drops them.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

mod order;
mod table;
#[cfg(test)]
mod tests;

pub use order::position;
pub use order::Priority;
pub use order::Taken;
pub use table::Denied;
pub use table::Exit;
pub use table::Hook;
pub use table::List;
pub use table::Lists;
pub use table::NoMemory;
pub use table::Op;
pub use table::Refused;
pub use table::State;
pub use table::Table;
