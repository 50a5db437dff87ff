// SPDX-License-Identifier: GPL-2.0

//! Leaks a relay application. Its name was in the module's memory, and its files stayed when the
//! API was unloaded. The application now has a copy of the name, and is removed with the API.
#![forbid(unsafe_code)]

use ferro_relay::App;
use kernel::prelude::*;

module! {
    type: Client,
    name: "relay_app_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a relay application",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        core::mem::forget(App::new(c"relay_app_forgotten", 4096, 4)?);
        Ok(Self)
    }
}
