// SPDX-License-Identifier: GPL-2.0

//! Leaks a relay application that calls a function of this module when it is enabled. It stops
//! calling that function when the module is unloaded.
#![forbid(unsafe_code)]

use ferro_relay::App;
use ferro_relay::Listener;
use kernel::prelude::*;

module! {
    type: Client,
    name: "relay_app_listener",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a relay application that calls it",
    license: "GPL v2",
}

struct Client;

fn listener(enabled: bool) -> Result {
    pr_info!("enabled: {enabled}\n");
    Ok(())
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let listener: Listener = listener;
        let app = App::with_listener(c"relay_app_listener", 4096, 4, listener)?;
        core::mem::forget(app);
        Ok(Self)
    }
}
