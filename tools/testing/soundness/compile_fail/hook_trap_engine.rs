// SPDX-License-Identifier: GPL-2.0

//! As `hook_trap.rs`, by the function for engines.
#![forbid(unsafe_code)]

use ferro_gkhi::points::Int3;
use ferro_gkhi::Answer;
use ferro_gkhi::AsIs;
use ferro_gkhi::EnginePromise;
use ferro_gkhi::Registered;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_trap_engine",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

fn breakpoint() {
    let _ = Registered::<Int3, AsIs>::builder(c"x")
        .register_engine(EnginePromise::new(), |_, _| Answer::Continue); //~ E0133
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
