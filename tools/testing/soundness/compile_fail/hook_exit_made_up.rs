// SPDX-License-Identifier: GPL-2.0

//! Makes up the number of an exit, and disarms its owner's exit: with an engine's, the next
//! breakpoint was an Oops. Only the registry makes numbers, and only its exits have one.
#![forbid(unsafe_code)]

use ferro_gkhi::points::TaskFork;
use ferro_gkhi::AnyExit;
use ferro_gkhi::Registered;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_exit_made_up",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

struct Fake;

impl AnyExit for Fake {} //~ E0277

fn number(exit: &Registered<TaskFork>) {
    let _number = exit.id(); //~ E0599
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
