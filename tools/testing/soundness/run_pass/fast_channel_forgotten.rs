// SPDX-License-Identifier: GPL-2.0

//! Leaks a fast channel. It stayed, with its buffers and its files, until the engine was unloaded,
//! and its name stayed taken. The channel is closed when the client is unloaded.
#![forbid(unsafe_code)]

use ferro_fast_relay::Channel;
use kernel::prelude::*;

module! {
    type: Client,
    name: "fast_channel_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a fast relay channel",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channel = Channel::builder(c"fast_channel_forgotten")
            .format("text")
            .open()?;
        channel.write(1, b"left")?;
        core::mem::forget(channel);
        Ok(Self)
    }
}
