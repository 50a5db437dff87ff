// SPDX-License-Identifier: GPL-2.0

//! A tracer of every function logs each call, while a handler takes the messages: what formats a message, and what takes it, is
//! traced, too, and each of these calls formatted a message of its own, which took longer than a timer's period. The tracer's
//! module did not end loading. klog now counts such a message as missed before anything is formatted, and what it executes until
//! then is not traced. What goes wrong is said in the log, with "BUG: ".
#![forbid(unsafe_code)]

use ferro_ftrace::FunctionCall;
use ferro_ftrace::TraceHandler;
use ferro_ftrace::Tracer;
use ferro_klog::klog;
use ferro_klog::Handler;
use ferro_klog::Registration;
use ferro_sys::cpu::IrqsOff;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

module! {
    type: Client,
    name: "klog_in_tracer",
    authors: ["Ferrotrace maintainers"],
    description: "A tracer of everything that logs",
    license: "GPL v2",
}

static MESSAGES: Atomic<u64> = Atomic::new(0);

struct Count;

impl Handler for Count {
    fn klog(_irqs: &IrqsOff, _message: &[u8]) {
        MESSAGES.fetch_add(1, Relaxed);
    }
}

struct Logs;

impl TraceHandler for Logs {
    fn call(&self, call: &FunctionCall<'_>) {
        klog!("{:#x} from {:#x}\n", call.ip(), call.parent_ip());
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let handler = Registration::<Count>::register()?;
        let missed = ferro_klog::missed();
        let tracer = Tracer::builder().globs(&[c"*"]).register(Logs)?;
        fsleep(Delta::from_millis(100));
        drop(tracer);
        drop(handler);
        let missed = ferro_klog::missed().wrapping_sub(missed);
        let messages = MESSAGES.load(Relaxed);
        pr_info!("{messages} messages, {missed} missed\n");
        if messages == 0 {
            pr_err!("BUG: no message\n");
        }
        Ok(Self)
    }
}
