// SPDX-License-Identifier: GPL-2.0

//! Leaks a channel. The text of its file `format` was in the module's memory, and its other files
//! stayed when the API and the engine were unloaded. The text is copied; the channel is closed when
//! the API is unloaded.
#![forbid(unsafe_code)]

use ferro_relay::Channel;
use kernel::prelude::*;

module! {
    type: Client,
    name: "relay_channel_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a relay channel",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channel = Channel::builder(c"relay_channel_forgotten").format("time, number\n");
        core::mem::forget(channel.open()?);
        Ok(Self)
    }
}
