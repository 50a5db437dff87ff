// SPDX-License-Identifier: GPL-2.0

//! Trampolines of ftrace: copies of the kernel's `ftrace_caller` and `ftrace_regs_caller`, each
//! with a function and an `ftrace_ops` of its own.
//!
//! - [`Template`] is such a function, from its first instruction to its last before the return,
//!   with the fields that a copy changes. They are found by decoding; code that does not match the
//!   labels is refused.
//! - [`Template::write`] writes a copy for an address.
//! - [`stub`] is called by a function, and enters a copy with data of its own.
//! - [`CallTarget`] and [`JumpTarget`] are destinations of instructions; odd addresses are allowed.
//!
//! Contexts: any. Nothing here allocates, locks or panics, for any bytes.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

mod elide_saves;
mod sets;
mod stub;
mod target;
mod template;
#[cfg(test)]
mod tests;
mod write;

pub use sets::Change;
pub use sets::Event;
pub use sets::Ftrace;
pub use sets::Members;
pub use sets::Place;
pub use sets::Places;
pub use sets::Sets;
pub use sets::MANY;
pub use sets::MAX_MEMBERS;
pub use sets::MAX_SETS;
pub use stub::stub;
pub use stub::STUB_LEN;
pub use target::CallTarget;
pub use target::JumpTarget;
pub use target::BRANCH_LEN;
pub use template::Labels;
pub use template::Refusal;
pub use template::Template;
pub use template::MAX_TEMPLATE;
pub use write::Ending;
pub use write::Third;
pub use write::Trampoline;
pub use write::WriteError;
