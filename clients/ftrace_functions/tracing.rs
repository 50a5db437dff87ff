// SPDX-License-Identifier: GPL-2.0

//! Handlers that write counted or timed calls to the channel.
//!
//! Contexts: handlers any that ftrace traces, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_fast_relay::Channel;
use ferro_ftrace::FunctionCall;
use ferro_ftrace::TraceHandler;
use ferro_ftrace::Tracer;
use ferro_ftrace_functions_core::Mode;
use ferro_sys::cpu::task;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::sync::deferred_drop::Deferred;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::raw::fprobe::Fprobe;
use crate::raw::fprobe::FprobeHandler;
use crate::raw::fprobe::FprobeSlot;
use crate::record::Record;
use crate::record::KIND;

/// More than the clock can seem to step back between CPUs.
const STEP_BACK_NS: u64 = 1_000_000;

/// Destination of records.
struct Output {
    channel: Arc<Channel>,
    /// Process that reads the channel. Its own calls are left out, because each read would cause
    /// more of them.
    reader: i32,
    /// Time at which the trace has started.
    start: u64,
}

impl Output {
    /// Returns the current thread, unless it belongs to the reader.
    #[inline(always)]
    fn thread(&self) -> Option<i32> {
        let ids = task::ids();
        (ids.process != self.reader).then_some(ids.thread)
    }

    #[inline]
    fn write(&self, ip: usize, duration: u64, thread: i32) {
        // The channel counts the records that it loses.
        let _ = self
            .channel
            .write_timed(KIND, &Record::new(ip, duration, thread));
    }
}

/// Handler that counts calls.
pub(crate) struct CallCounter(Output);

impl TraceHandler for CallCounter {
    #[inline]
    fn call(&self, call: &FunctionCall<'_>) {
        if let Some(thread) = self.0.thread() {
            self.0.write(call.ip(), 0, thread);
        }
    }
}

/// Handler that times calls.
pub(crate) struct CallTimer(Output);

impl FprobeHandler for CallTimer {
    #[inline]
    fn entry(&self) -> Option<u64> {
        self.0.thread().map(|_| mono_fast_ns())
    }

    #[inline]
    fn exit(&self, ip: usize, entered: u64) {
        let now = mono_fast_ns();
        // Skip calls that an earlier probe at this address has entered: `entered` may then be any
        // number.
        if entered < self.0.start || entered > now.saturating_add(STEP_BACK_NS) {
            return;
        }
        // The clock can seem to step back between CPUs.
        let duration = now.saturating_sub(entered);
        self.0.write(ip, duration, task::ids().thread);
    }
}

/// Trace of functions. Dropping this ends it.
pub(crate) enum Tracing {
    Count { _tracer: Tracer<CallCounter> },
    Time(Deferred<Fprobe<CallTimer>>),
}

impl Tracing {
    /// Traces the functions at these addresses, without duplicates.
    ///
    /// Errors: -ENOENT if ftrace does not trace one, and errors of registering.
    pub(crate) fn new(
        mode: Mode,
        addresses: &[usize],
        channel: Arc<Channel>,
        reader: i32,
        slot: FprobeSlot,
    ) -> Result<Self> {
        let start = mono_fast_ns();
        let output = Output {
            channel,
            reader,
            start,
        };
        Ok(match mode {
            Mode::Count => {
                let builder = Tracer::builder().addresses(addresses);
                let _tracer = builder.register(CallCounter(output))?;
                Self::Count { _tracer }
            }
            Mode::Time => {
                let fprobe = Fprobe::register(slot, addresses, CallTimer(output));
                Self::Time(Deferred::new(fprobe).map_err(no_site)?)
            }
        })
    }

    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::Count { .. } => Mode::Count,
            Self::Time(_) => Mode::Time,
        }
    }

    /// Returns the number of calls that could not be followed to their return.
    pub(crate) fn missed(&self) -> usize {
        match self {
            Self::Count { .. } => 0,
            Self::Time(fprobe) => fprobe.missed(),
        }
    }
}

/// Maps ftrace's errors for untraceable addresses to -ENOENT.
fn no_site(error: Error) -> Error {
    match error {
        e if e == EINVAL => ENOENT,
        e => e,
    }
}
