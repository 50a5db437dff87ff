// SPDX-License-Identifier: GPL-2.0

//! Sample: the jprobes example of the kprobes document.
//!
//! Probes the entry of the function that forks, and writes the arguments of the first calls to the
//! log. The compiler checks the function's signature against the kernel's.
#![deny(unsafe_code)]

use ferro_kprobe::entry_probe;
use ferro_kprobe::field;
use ferro_kprobe::EntryProbe;
use ferro_kprobe::ProbeCtx;
use ferro_sys::bindings::kernel_clone_args;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: EntryFork,
    name: "entry_fork",
    authors: ["Ferrotrace maintainers"],
    description: "Sample: a probe that prints the arguments of forks",
    license: "GPL v2",
    params: {
        reports: u64 {
            default: 3,
            description: "How many hits to report in the log",
        },
    },
}

static LEFT: Atomic<i64> = Atomic::new(0);

/// Prints the arguments of a call.
fn report(ctx: &ProbeCtx<'_>, args: *const kernel_clone_args) {
    if LEFT.fetch_sub(1, Relaxed) <= 0 {
        return;
    }
    let flags = ctx.read(field!(args, kernel_clone_args, flags));
    let stack = ctx.read(field!(args, kernel_clone_args, stack));
    let stack_size = ctx.read(field!(args, kernel_clone_args, stack_size));
    if let (Some(flags), Some(stack), Some(stack_size)) = (flags, stack, stack_size) {
        pr_info!("clone flags {flags:#x}, stack {stack:#x}, stack size {stack_size:#x}\n");
    }
}

struct EntryFork {
    probe: EntryProbe,
}

impl kernel::Module for EntryFork {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let reports = module_parameters::reports.value();
        LEFT.store(reports.try_into().unwrap_or(i64::MAX), Relaxed);
        let probe = entry_probe!(
            ferro_sys::bindings::kernel_clone,
            |ctx, args: *mut kernel_clone_args| report(ctx, args)
        );
        Ok(Self {
            probe: probe.register()?,
        })
    }
}

impl Drop for EntryFork {
    fn drop(&mut self) {
        pr_info!(
            "{} hits, {} missed\n",
            self.probe.hits(),
            self.probe.missed()
        );
    }
}
