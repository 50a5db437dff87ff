// SPDX-License-Identifier: GPL-2.0

//! Jprobes: handlers at the entry of functions, which get the function's arguments as their own.
//!
//! A jprobe is a client of `<linux/kprobes.h>`, with either engine. The pre handler of a kprobe
//! calls its handler as a function with the arguments of the probed one (`raw/call.S`).
//! `jprobe_return()` returns from any depth below (`raw/frame.c`). The probed function's registers
//! and stack stay unchanged. `register.rs` has the refusals, `exports.rs` the C functions.
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
