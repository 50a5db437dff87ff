// SPDX-License-Identifier: GPL-2.0

//! Calls, counted or timed, to the channel.
//!
//! Contexts: handlers any that ftrace traces, NMI included; the rest process.
#![deny(unsafe_code)]

use ferro_core::function_command::Mode;
use ferro_fast_relay::Channel;
use ferro_ftrace::FunctionCall;
use ferro_ftrace::TraceHandler;
use ferro_ftrace::Tracer;
use ferro_sys::cpu::task;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::sync::deferred_drop::Deferred;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::raw::fprobe::Timed;
use crate::raw::fprobe::Timer;
use crate::record::Record;
use crate::record::KIND;

/// More than the clock can seem to step back between CPUs.
const STEP_BACK_NS: u64 = 1_000_000;

/// Where calls go.
struct Output {
    channel: Arc<Channel>,
    /// The process that reads them, whose own calls are left out: each read would be followed by more of them.
    reader: i32,
    /// When this began.
    start: u64,
}

impl Output {
    /// The thread that runs, unless it is one of the reader's.
    #[inline(always)]
    fn thread(&self) -> Option<i32> {
        let ids = task::ids();
        (ids.process != self.reader).then_some(ids.thread)
    }

    #[inline]
    fn put(&self, ip: usize, duration: u64, thread: i32) {
        // The channel counts what it has no room for.
        let _ = self
            .channel
            .write_timed(KIND, &Record::new(ip, duration, thread));
    }
}

/// Counts.
pub(crate) struct Counter(Output);

impl TraceHandler for Counter {
    #[inline]
    fn call(&self, call: &FunctionCall<'_>) {
        if let Some(thread) = self.0.thread() {
            self.0.put(call.ip(), 0, thread);
        }
    }
}

/// Times.
pub(crate) struct Clock(Output);

impl Timed for Clock {
    #[inline]
    fn entered(&self) -> Option<u64> {
        self.0.thread().map(|_| mono_fast_ns())
    }

    #[inline]
    fn left(&self, ip: usize, entered: u64) {
        let now = mono_fast_ns();
        // A call that another probe has followed at its entry, which was where this one is, is not ours.
        if entered < self.0.start || entered > now.saturating_add(STEP_BACK_NS) {
            return;
        }
        // The clock is one that can seem to step back between CPUs.
        let duration = now.saturating_sub(entered);
        self.0.put(ip, duration, task::ids().thread);
    }
}

/// Functions that are traced, until this is dropped.
pub(crate) enum Tracing {
    Count { _tracer: Tracer<Counter> },
    Time(Deferred<Timer<Clock>>),
}

impl Tracing {
    /// Begins with the functions at these addresses, each of which is there once.
    ///
    /// Errors: -ENOENT if one is not traced by ftrace, and those of registering.
    pub(crate) fn new(
        mode: Mode,
        addresses: &[usize],
        channel: Arc<Channel>,
        reader: i32,
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
                let _tracer = builder.register(Counter(output))?;
                Self::Count { _tracer }
            }
            Mode::Time => {
                let timer = Timer::register(addresses, Clock(output));
                Self::Time(Deferred::new(timer).map_err(no_site)?)
            }
        })
    }

    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::Count { .. } => Mode::Count,
            Self::Time(_) => Mode::Time,
        }
    }

    /// Calls that could not be followed to their return.
    pub(crate) fn missed(&self) -> usize {
        match self {
            Self::Count { .. } => 0,
            Self::Time(timer) => timer.missed(),
        }
    }
}

/// One error for an address that ftrace does not trace.
fn no_site(error: Error) -> Error {
    match error {
        e if e == EINVAL => ENOENT,
        e => e,
    }
}
