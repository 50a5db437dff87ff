// SPDX-License-Identifier: GPL-2.0

//! A handler at the entry of functions that has them go on elsewhere, or changes their parameters.
#![forbid(unsafe_code)]

use ferro_sys::code::ftrace_ops::FtraceHandler;
use ferro_sys::code::ftrace_ops::FtraceOps;
use ferro_sys::code::regs::Regs;
use kernel::prelude::*;

module! {
    type: Client,
    name: "ftrace_ops_made",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

struct Elsewhere;

impl FtraceHandler for Elsewhere {
    fn call(_ip: usize, parent_ip: usize, regs: &mut Regs) {
        regs.set_ip(parent_ip);
    }
}

static MODIFYING: FtraceOps<Elsewhere> = FtraceOps::modifying(); //~ E0133
static OBSERVING: FtraceOps<Elsewhere> = FtraceOps::observing(); //~ E0133

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        MODIFYING.add(&[])?;
        OBSERVING.add(&[])?;
        Ok(Self)
    }
}
