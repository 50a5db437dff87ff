// SPDX-License-Identifier: GPL-2.0

//! Counting and timing the calls of functions in the running kernel.
//!
//! The kernel's side is the module `ferrotrace_ftrace_functions`, which takes addresses: [`available`] finds those that patterns
//! stand for, and knows what each address is called.

pub mod available;
pub mod control;
pub mod error;
pub mod glob;
pub mod histogram;
pub mod print;
pub mod tally;
pub mod trace;
