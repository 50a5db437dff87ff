// SPDX-License-Identifier: GPL-2.0

//! Tries to execute a hook through a static that refers to it. The site's jump entry would have
//! named the static as the hook's key, and loading the module would have written to the memory
//! after it.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::hook::typed::Hook;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_reference",
    authors: ["Ferrotrace maintainers"],
    description: "Passes by a reference to a hook",
    license: "GPL v2",
}

define_hook! {
    /// A tick.
    static TICK: Tick<'a> = c"tick_by_reference" in Atomic(now: u64);
}

static REFERENCE: &Hook<Tick> = &TICK;

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        hook!(REFERENCE, 1); //~ E0308
        Ok(Self)
    }
}
