// SPDX-License-Identifier: GPL-2.0

//! Attaches to traps. An exit on kernel_fault that answered each fault as handled hung the machine.
//! One on int3 that printed recursed with a probe in printk() until the stack was full. Only
//! engines may attach: they promise to do neither.
#![forbid(unsafe_code)]

use ferro_gkhi::Answer;
use ferro_gkhi::AsIs;
use ferro_gkhi::Registered;
use ferro_gkhi::points::Int3;
use ferro_gkhi::points::KernelFault;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_trap",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

fn fault() {
    let _ = Registered::<KernelFault, AsIs>::builder(c"x").register(|_, _| Answer::Terminate); //~ E0599
}

fn breakpoint() {
    let _ = Registered::<Int3, AsIs>::builder(c"x").pinned().register(|_, _| Answer::Continue); //~ E0599
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
