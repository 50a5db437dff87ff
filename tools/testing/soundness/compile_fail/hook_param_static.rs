// SPDX-License-Identifier: GPL-2.0

//! Makes a hook pass `&'static mut`: each exit could keep one, all to the same word. References
//! last as long as a dispatch.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_param_static",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

define_hook! { //~ error lifetime may not live long enough
    /// Lends a word without an end.
    static FOREVER: Forever<'a> = c"sound_forever" in Task(word: &'static mut u64);
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
