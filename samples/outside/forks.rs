// SPDX-License-Identifier: GPL-2.0

//! Records the process and the CPU of each fork.
#![forbid(unsafe_code)]

use ferro_fast_relay::Channel;
use ferro_kprobe::{Next, Probe, ProbeCtx, ProbeHandler};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use zerocopy_derive::{Immutable, IntoBytes};

module! {
    type: Forks,
    name: "forks",
    authors: ["Me"],
    description: "Records who forks",
    license: "GPL v2",
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Record {
    pid: i32,
    cpu: u32,
}

struct Recorder {
    channel: Channel,
    count: Atomic<u64>,
}

#[vtable]
impl ProbeHandler for Recorder {
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        let record = Record {
            pid: ctx.task().pid,
            cpu: ctx.cpu(),
        };
        // The channel counts records that do not fit.
        let _ = self.channel.write_timed(1, &record);
        self.count.fetch_add(1, Relaxed);
        Next::Continue
    }
}

struct Forks {
    probe: Probe<Recorder>,
}

impl kernel::Module for Forks {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let recorder = Recorder {
            channel: Channel::builder(c"forks").open()?,
            count: Atomic::new(0),
        };
        Ok(Self {
            probe: Probe::builder()
                .symbol(c"kernel_clone")
                .register(recorder)?,
        })
    }
}

impl Drop for Forks {
    fn drop(&mut self) {
        pr_info!("{} forks\n", self.probe.handler().count.load(Relaxed));
    }
}
