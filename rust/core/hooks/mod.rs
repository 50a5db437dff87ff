// SPDX-License-Identifier: GPL-2.0

//! The hook registry's bookkeeping: which hooks there are, which exits they have, in which order,
//! and which of them are armed.
//!
//! Contexts: whatever their caller is in; callers serialise. It allocates only through [`Lists`].
//!
//! A change of several exits is made in two steps. [`Table::stage`] looks whether all of it is
//! allowed and notes what is to be; while that is put into effect, [`Exit::next`] has the state to come
//! and [`Exit::state`] the present one. Then it becomes the present by [`Table::commit`], or is
//! forgotten by [`Table::abort`].

mod order;
mod table;
#[cfg(test)]
mod tests;

pub use order::place;
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
