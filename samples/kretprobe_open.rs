// SPDX-License-Identifier: GPL-2.0

//! Sample: the kretprobes example of the kprobes document.
//!
//! Probes the return of the function that opens files. Counts the calls that fail, and writes the
//! first of them to the log. Each line has the file's name, read from the memory of the process,
//! and the descriptor of the directory that the name is relative to.
#![deny(unsafe_code)]

use ferro_kprobe::Argument;
use ferro_kprobe::Keep;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::uaccess::UserPtr;

module! {
    type: KretprobeOpen,
    name: "kretprobe_open",
    authors: ["Ferrotrace maintainers"],
    description: "Sample: a kretprobe that reports open calls that fail",
    license: "GPL v2",
    params: {
        max_active: u32 {
            default: 20,
            description: "How many calls to follow at a time",
        },
        reports: u64 {
            default: 10,
            description: "How many failures to report in the log",
        },
    },
}

struct Opens {
    reports: u64,
    calls: Atomic<u64>,
    failures: Atomic<u64>,
}

#[vtable]
impl RetprobeHandler for Opens {
    type Data = Arguments;

    fn entry(&self, ctx: &mut ProbeCtx<'_>, data: &mut Arguments) -> Keep {
        [data.dir, data.name, ..] = ctx.register_arguments();
        Keep::Yes
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut Arguments) {
        self.calls.fetch_add(1, Relaxed);
        let value = i32::from_register(ctx.return_value());
        if value < 0 && self.failures.fetch_add(1, Relaxed) < self.reports {
            let dir = i32::from_register(data.dir);
            // The name is read here, not at the entry: the function has read it, so its page is
            // mapped now.
            let mut name = [0; 64];
            match ctx.user_str(UserPtr::from_register(data.name), &mut name) {
                Ok(name) => {
                    let name = BStr::from_bytes(name);
                    pr_info!("do_sys_openat2({dir}, \"{name}\", ...) returns {value}\n");
                }
                Err(fault) => pr_info!("do_sys_openat2({dir}, {fault:?}, ...) returns {value}\n"),
            }
        }
    }
}

/// First arguments of a call, as in the registers at its entry.
#[derive(Clone, Copy, Zeroable)]
struct Arguments {
    dir: usize,
    name: usize,
}

struct KretprobeOpen {
    probe: Retprobe<Opens>,
}

impl kernel::Module for KretprobeOpen {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let opens = Opens {
            reports: module_parameters::reports.value(),
            calls: Atomic::new(0),
            failures: Atomic::new(0),
        };
        let probe = Retprobe::builder()
            .symbol(c"do_sys_openat2")
            .max_active(module_parameters::max_active.value())
            .register(opens)?;
        Ok(Self { probe })
    }
}

impl Drop for KretprobeOpen {
    fn drop(&mut self) {
        let opens = self.probe.handler();
        pr_info!(
            "{} calls, {} failures, {} missed\n",
            opens.calls.load(Relaxed),
            opens.failures.load(Relaxed),
            self.probe.missed()
        );
    }
}
