// SPDX-License-Identifier: GPL-2.0

//! Pure logic of live coverage: places of breakpoints, and the execution of their instructions.
//!
//! - [`Executable::of`] returns how a trap executes an instruction, or the reason why it cannot.
//! - [`check_function`] checks the places in a function.
//! - [`Sites`] has the instructions that the kernel patches, from its tables.
//! - [`path::has`] tells which functions a hit executes.
//! - [`State`] is the byte of a place.
//! - [`Offsets`] finds places, and the places of a page.
//! - [`Record`] and [`Command`] parse writes to the files.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any bytes.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

mod command;
mod execute;
mod function;
mod offsets;
pub mod path;
mod record;
mod sites;
mod state;

pub use command::Command;
pub use execute::Executable;
pub use function::check_function;
pub use function::Rules;
pub use function::JUMP_LEN;
pub use offsets::Offsets;
pub use offsets::PAGE;
pub use record::Record;
pub use record::PLACES_MAX;
pub use record::WRITE_MAX;
pub use sites::Site;
pub use sites::Sites;
pub use state::Refusal;
pub use state::State;
