// SPDX-License-Identifier: GPL-2.0

//! Wrappers that need `unsafe`: the kernel's text, breakpoints in it, and their traps.

pub(crate) mod armed;
pub(crate) mod check;
pub(crate) mod modules;
pub(crate) mod segment;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod trap;
pub(crate) mod worker;
