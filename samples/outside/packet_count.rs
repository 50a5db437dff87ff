// SPDX-License-Identifier: GPL-2.0

//! Counts packets, by an exit on the hook of another module (`packet_hooks.rs`). The exit marks
//! each packet, and drops long ones. The type is from that crate, so that the compiler checks the
//! parameters. This module uses the hook itself, which keeps the other module loaded.
#![forbid(unsafe_code)]

use ferro_gkhi::Answer;
use ferro_gkhi::AnyExit;
use ferro_gkhi::Registered;
use kernel::prelude::*;
use packet_hooks::PacketIn;

module! {
    type: Count,
    name: "packet_count",
    authors: ["Me"],
    description: "Counts packets of another module",
    license: "GPL v2",
}

struct Count(Registered<PacketIn>);

impl kernel::Module for Count {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let exit =
            Registered::<PacketIn>::builder(c"count").register(|_call, (len, marks, device)| {
                *marks += device.number;
                match len > 1500 {
                    true => Answer::Terminate,
                    false => Answer::Continue,
                }
            })?;
        Ok(Self(exit))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        pr_info!("{} packets\n", self.0.hits());
    }
}
