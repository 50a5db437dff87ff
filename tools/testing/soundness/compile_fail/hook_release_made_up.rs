// SPDX-License-Identifier: GPL-2.0

//! Makes a release with the number of another owner, and so releases its hook.
#![forbid(unsafe_code)]

use ferro_sys::hook::DeferredRelease;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_release_made_up",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

fn release_other() -> Result {
    let mut release = DeferredRelease::new()?;
    release.set(1, None); //~ E0133
    release.defer();
    Ok(())
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
