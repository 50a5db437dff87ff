// SPDX-License-Identifier: GPL-2.0

//! Trees of the kernel's calls, from its function graph tracer: `ferrotrace graph` and `ferrotrace
//! why`.
//!
//! [`session`] records in an instance of tracefs, [`event`] decodes the records, [`tree`] builds
//! the calls of each thread, [`exec`] leaves out those before the command, [`print`] and [`flame`]
//! show them, and [`why`] explains errors by them.

pub mod error;
pub mod event;
pub mod exec;
pub mod flame;
pub mod names;
pub mod print;
pub mod session;
pub mod tree;
pub mod value;
pub mod why;
