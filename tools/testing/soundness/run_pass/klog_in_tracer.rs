// SPDX-License-Identifier: GPL-2.0

//! Traces functions that the handler of the messages also calls, and klog's own functions, with a
//! tracer that logs each call. Each call of klog's functions formatted a message of its own. With
//! every function traced, that took longer than a timer's period, and the client did not end. klog
//! counts such a message as missed before it formats anything, and nothing up to there is traced.
//! The log reports failures with "BUG: ".
#![forbid(unsafe_code)]

use ferro_ftrace::FunctionCall;
use ferro_ftrace::TraceError;
use ferro_ftrace::TraceHandler;
use ferro_ftrace::Tracer;
use ferro_klog::klog;
use ferro_klog::Handler;
use ferro_klog::Registration;
use ferro_sys::cpu::IrqsOff;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::time::Instant;
use kernel::time::Monotonic;

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
        // This function is traced.
        let _ = Instant::<Monotonic>::now();
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
        // Functions that klog runs before it notices are not traced.
        for name in [c"ferro_klog_enter", c"ferro_klog_text_get", c"klog_printk"] {
            let own = Tracer::builder().names(&[name]).register(Logs);
            if !matches!(own, Err(TraceError::NotFound)) {
                pr_err!("BUG: {name:?} is traced\n");
            }
        }
        let tracer = Tracer::builder().globs(&[c"ktime_get*"]).register(Logs)?;
        for _ in 0..100 {
            let _ = Instant::<Monotonic>::now();
        }
        drop(tracer);
        drop(handler);
        let missed = ferro_klog::missed().wrapping_sub(missed);
        let messages = MESSAGES.load(Relaxed);
        pr_info!("{messages} messages, {missed} missed\n");
        if messages < 100 || missed < 100 {
            pr_err!("BUG: {messages} messages, {missed} missed\n");
        }
        Ok(Self)
    }
}
