// SPDX-License-Identifier: GPL-2.0

//! Sample: the kprobes example of the kprobes document.
//!
//! Probes the function that forks. Its handlers write the registers and the stack of the first
//! calls to the log, and count all calls.
#![deny(unsafe_code)]

use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeHandler;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: KprobeFork,
    name: "kprobe_fork",
    authors: ["Ferrotrace maintainers"],
    description: "Sample: a kprobe that dumps the stack of forks",
    license: "GPL v2",
    params: {
        reports: u64 {
            default: 3,
            description: "How many hits to report in the log",
        },
    },
}

struct Forks {
    reports: u64,
    hits: Atomic<u64>,
}

#[vtable]
impl ProbeHandler for Forks {
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        if self.hits.fetch_add(1, Relaxed) < self.reports {
            pr_info!(
                "before {:#x}: sp {:#x}, flags {:#x}\n",
                ctx.ip(),
                ctx.sp(),
                ctx.flags()
            );
            ctx.dump_stack();
        }
        Next::Continue
    }

    fn post(&self, ctx: &mut ProbeCtx<'_>) {
        if self.hits.load(Relaxed) <= self.reports {
            pr_info!("after it: flags {:#x}\n", ctx.flags());
        }
    }
}

struct KprobeFork {
    probe: Probe<Forks>,
}

impl kernel::Module for KprobeFork {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let forks = Forks {
            reports: module_parameters::reports.value(),
            hits: Atomic::new(0),
        };
        Ok(Self {
            probe: Probe::builder().symbol(c"kernel_clone").register(forks)?,
        })
    }
}

impl Drop for KprobeFork {
    fn drop(&mut self) {
        let hits = self.probe.handler().hits.load(Relaxed);
        pr_info!("{hits} hits, {} missed\n", self.probe.missed());
    }
}
