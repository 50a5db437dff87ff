// SPDX-License-Identifier: GPL-2.0

//! Jprobes: handlers at the entry of functions, which get the function's arguments as their own.
//!
//! A jprobe is a client of `<linux/kprobes.h>`, whichever engine that has. Its handler is called by the pre handler of a
//! kprobe, as a function with the arguments that the probed one was called with (`raw/call.S`); `jprobe_return()` goes back
//! from anywhere below (`raw/frame.c`). Nothing about the probed function's registers or stack is changed. `register.rs`
//! says what is refused, `exports.rs` has the C functions.
//!
//! Contexts: process, and sleeping; the handlers any, NMI included.

use kernel::prelude::*;

mod error;
mod exports;
mod raw;
mod register;

module! {
    type: Jprobes,
    name: "ferrotrace_jprobe",
    authors: ["Ferrotrace maintainers"],
    description: "Jprobes: handlers that get the arguments of functions",
    license: "GPL v2",
}

struct Jprobes;

impl kernel::Module for Jprobes {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
