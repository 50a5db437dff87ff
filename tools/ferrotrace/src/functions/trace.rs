// SPDX-License-Identifier: GPL-2.0

//! Tracing functions until a signal, or the end of the command or of the time.

#![deny(unsafe_code)]

use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;

use super::available::Functions;
use super::control::Control;
use super::control::Counts;
use super::error::Error;
use super::error::Result;
use super::print::Report;
use super::print::Style;
use super::tally::Call;
use super::tally::Tally;
use crate::fast::live::Live;
use crate::file::IoError;
use crate::pids::Pids;
use crate::signals::StopSignals;

/// About how long a call may wait to be read.
const ROUND: Duration = Duration::from_millis(100);

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often to report.
    pub interval: Duration,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Count only calls of these.
    pub pids: Pids,
    /// How calls are shown.
    pub style: Style,
}

struct Trace<'a> {
    functions: &'a Functions,
    options: Options,
    live: Live,
    /// All calls.
    total: Tally,
    /// Those since the last report.
    recent: Tally,
    start: Instant,
    reported: Instant,
    counts: Counts,
}

/// Traces `functions`, and shows them with `print`, which returns whether there still is a reader, and is called for that without a
/// text, too. `ready` is called when it has begun.
pub fn trace(
    control: &mut Control,
    functions: &Functions,
    options: Options,
    signals: &StopSignals,
    ready: impl FnOnce() -> Result<()>,
    mut print: impl FnMut(&str) -> Result<bool>,
) -> Result<()> {
    let mut live = Live::open(&control.channel())?;
    // Of somebody who was killed.
    live.round(|_, _| ())?;
    let addresses: Vec<u64> = functions.addresses().collect();
    control.start(&addresses, options.style.timed)?;
    ready()?;
    let (interval, duration) = (options.interval, options.duration);
    let start = Instant::now();
    let mut trace = Trace {
        functions,
        options,
        live,
        total: Tally::default(),
        recent: Tally::default(),
        start,
        reported: start,
        counts: Counts::default(),
    };
    let end = duration.and_then(|time| start.checked_add(time));
    let mut goes_on = true;
    while goes_on && end.is_none_or(|end| Instant::now() < end) {
        trace.read()?;
        let now = Instant::now();
        let text = match now.duration_since(trace.reported) >= interval {
            true => {
                trace.live.scan()?;
                trace.report(now, control.counts()?)
            }
            false => String::new(),
        };
        goes_on = print(&text)?;
        if goes_on {
            let next = trace.reported.checked_add(interval);
            let left = [next, end].into_iter().flatten().min();
            let left = left.map(|until| until.saturating_duration_since(Instant::now()));
            let most = left.unwrap_or(ROUND).min(ROUND);
            let stopped = trace.live.wait(signals, most);
            goes_on = !stopped.map_err(|errno| system("wait", errno))?;
        }
    }
    control.stop()?;
    let now = Instant::now();
    trace.live.scan()?;
    trace.read()?;
    print(&trace.summary(now, control.counts()?))?;
    Ok(())
}

fn system(action: &'static str, errno: Errno) -> Error {
    Error::Io(IoError {
        action,
        path: "/proc/self".into(),
        source: errno.into(),
    })
}

impl Trace<'_> {
    fn read(&mut self) -> Result<()> {
        let (total, recent) = (&mut self.total, &mut self.recent);
        let pids = &mut self.options.pids;
        self.live.round(|_, record| {
            if let Some(call) = Call::parse(&record.data).filter(|call| pids.contain(call.pid)) {
                total.add(call);
                recent.add(call);
            }
        })?;
        Ok(())
    }

    /// The calls since the last report; on a terminal, where tables replace each other, those since the start.
    fn report(&mut self, now: Instant, counts: Counts) -> String {
        let recent = self.recent.take();
        let span = now.duration_since(self.reported);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let difference = Counts {
            lost: since(counts.lost, self.counts.lost),
            missed: since(counts.missed, self.counts.missed),
        };
        self.reported = now;
        self.counts = counts;
        let all = self.options.style.terminal;
        Report {
            tally: if all { &self.total } else { &recent },
            functions: self.functions,
            at: now.duration_since(self.start),
            span,
            counts: if all { counts } else { difference },
        }
        .interval(self.options.style)
    }

    fn summary(&self, now: Instant, counts: Counts) -> String {
        let at = now.duration_since(self.start);
        Report {
            tally: &self.total,
            functions: self.functions,
            at,
            span: at,
            counts,
        }
        .summary(self.options.style)
    }
}
