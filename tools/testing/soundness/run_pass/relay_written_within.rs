// SPDX-License-Identifier: GPL-2.0

//! Writes to relay channels, and also from a probe on the function that wakes their readers. The
//! probe's record was put after the end of the sub-buffer that was just being finished, and Ok
//! returned. If the CPUs shared a buffer, the write waited for itself. Now a write inside another
//! write of its channel and CPU is refused, and counted.
#![forbid(unsafe_code)]

use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeHandler;
use ferro_relay::Channel;
use ferro_sys::cpu::current_id;
use ferro_sys::cpu::with_irqs_off;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

module! {
    type: Client,
    name: "relay_written_within",
    authors: ["Ferrotrace maintainers"],
    description: "Writes to a channel from within writing to it",
    license: "GPL v2",
}

/// No CPU.
const NONE: u32 = u32::MAX;

struct Target {
    channel: Channel,
    /// The CPU that writes outside of the probe.
    writer: Atomic<u32>,
    /// Bytes of writes that returned Ok, and records of writes that did not.
    written: Atomic<u64>,
    refused: Atomic<u64>,
    /// Hits within a write.
    within: Atomic<u64>,
}

impl Target {
    fn write(&self, record: &[u8]) {
        match self.channel.write(record) {
            Ok(()) => self.written.fetch_add(record.len() as u64, Relaxed),
            Err(_) => self.refused.fetch_add(1, Relaxed),
        };
    }
}

struct Handler(Arc<Target>);

#[vtable]
impl ProbeHandler for Handler {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        if self.0.writer.load(Relaxed) == current_id() {
            self.0.within.fetch_add(1, Relaxed);
        }
        // Smaller than the room that the other record leaves.
        self.0.write(&[1; 16]);
        Next::Continue
    }
}

/// Writes until the probe has been hit within a write some times.
fn run(target: &Arc<Target>) -> Result {
    let _probe = Probe::builder()
        .symbol(c"arch_irq_work_raise")
        .register(Handler(target.clone()))?;
    for _ in 0..4000 {
        if target.within.load(Relaxed) >= 10 {
            return Ok(());
        }
        with_irqs_off(|_| {
            target.writer.store(current_id(), Relaxed);
            target.write(&[2; 48]);
            target.writer.store(NONE, Relaxed);
        });
        fsleep(Delta::from_millis(5));
    }
    Err(ETIMEDOUT)
}

struct Client {
    _targets: [Arc<Target>; 2],
}

impl Client {
    fn target(name: &CStr, global: bool) -> Result<Arc<Target>> {
        let builder = Channel::builder(name).subbuf_size(64).n_subbufs(64);
        let channel = if global { builder.global() } else { builder }.open()?;
        let target = Arc::new(
            Target {
                channel,
                writer: Atomic::new(NONE),
                written: Atomic::new(0),
                refused: Atomic::new(0),
                within: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        run(&target)?;
        pr_info!(
            "{}: {} bytes written, {} records refused, {} counted\n",
            name,
            target.written.load(Relaxed),
            target.refused.load(Relaxed),
            target.channel.stats().dropped
        );
        Ok(target)
    }
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _targets: [
                Self::target(c"relay_within", false)?,
                Self::target(c"relay_within_global", true)?,
            ],
        })
    }
}
