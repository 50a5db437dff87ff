// SPDX-License-Identifier: GPL-2.0

//! Watching hits: those of existing probes, or of temporary ones.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use nix::time::ClockId;
use nix::time::clock_gettime;
use serde::Serialize;

use super::error::Error;
use super::error::Result;
use super::event::Event;
use super::kernel::Kernel;
use super::kernel::Live;
use super::model::Probe;
use super::order::Order;
use super::print;
use super::print::Style;
use super::resolve::Wanted;
use super::symbols::Symbols;
use crate::file::IoError;
use crate::pids::Pids;
use crate::signals::StopSignals;
use crate::tracepoints::resolve::Tracepoint;

/// About how long a hit may wait to be shown.
pub(super) const ROUND: Duration = Duration::from_millis(100);

/// How long ago, in ns, a writer may have read the clock without having written yet.
const SLACK: u64 = 1_000_000;

/// The number of rounds after which to look for new CPUs and new probes.
const LOOK: u32 = 10;

/// Options of the user.
#[derive(Clone, Debug)]
pub struct Options {
    /// Temporary probes, which exist as long as this runs; without any, all existing probes are
    /// watched, unless `others` is set.
    pub probes: Vec<Wanted>,
    /// Tracepoints and system calls.
    pub tracepoints: Vec<Tracepoint>,
    /// True if something else than probes is wanted, such as tracepoints.
    pub others: bool,
    /// Stop after that many hits.
    pub count: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Show only hits of these.
    pub pids: Pids,
    /// Count only hits of the command that `ready` starts, and of its children, where the kernel
    /// adds up.
    pub of_command: bool,
}

/// Output of hits.
pub trait Show {
    /// Hits are wanted from now on.
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    /// A hit of `probe`, in the order of time.
    fn hit(&mut self, event: &Event, probe: &Probe);
    /// There are no more for now; a round takes a tenth of a second. Returns whether there still is
    /// a reader.
    fn round(&mut self, now: &Now<'_>) -> Result<bool>;
}

/// How far a watch has come.
pub struct Now<'a> {
    /// How long hits have been wanted.
    pub at: Duration,
    /// Hits that found no room meanwhile, of any probe.
    pub dropped: &'a dyn Fn() -> Result<u64>,
}

/// Hits as lines.
pub struct Lines<'a, P> {
    text: String,
    style: Style,
    symbols: &'a Symbols,
    print: P,
}

impl<'a, P: FnMut(&str) -> Result<bool>> Lines<'a, P> {
    /// Shows hits with `print`, which returns whether there still is a reader, and is called for
    /// that without a hit, too. `symbols` names where functions return to.
    pub fn new(style: Style, symbols: &'a Symbols, print: P) -> Self {
        Self {
            text: String::new(),
            style,
            symbols,
            print,
        }
    }
}

impl<P: FnMut(&str) -> Result<bool>> Show for Lines<'_, P> {
    fn hit(&mut self, event: &Event, probe: &Probe) {
        let line = print::event(event, probe, self.symbols, self.style);
        self.text.push_str(&line);
    }

    fn round(&mut self, _now: &Now<'_>) -> Result<bool> {
        let text = std::mem::take(&mut self.text);
        (self.print)(&text)
    }
}

/// Hits of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeCounts {
    /// The probe's place if it was temporary, otherwise its name.
    pub name: String,
    /// Hits that were shown.
    pub events: u64,
    /// Hits meanwhile for which no handler could be called.
    pub missed: u64,
}

/// The counts of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Of each probe.
    pub probes: Vec<ProbeCounts>,
    /// Hits that were shown.
    pub events: u64,
    /// Hits that the channel had no room for, of any probe.
    pub dropped: u64,
    /// Those of them that were overwritten in a buffer of tracefs.
    #[serde(skip)]
    pub overwritten: u64,
    /// Hits that were shown after later ones.
    pub late: u64,
}

impl Counts {
    /// Returns the number of hits that found no room in the kernel, or called no handler.
    pub fn lost_in_kernel(&self) -> u64 {
        let missed: u64 = self.probes.iter().map(|probe| probe.missed).sum();
        let dropped = self.dropped.saturating_sub(self.overwritten);
        dropped.saturating_add(missed)
    }
}

/// Temporary probes, which exist as long as this value.
#[derive(Debug)]
pub struct Temporary<'a> {
    kernel: &'a Kernel,
    pub(super) names: Vec<String>,
    /// Why others, of patterns, are not.
    pub refused: Vec<Error>,
}

impl<'a> Temporary<'a> {
    /// Adds probes, with names of their own.
    pub fn add(kernel: &'a Kernel, probes: &[Wanted], signals: &StopSignals) -> Result<Self> {
        Self::add_as(kernel, probes, temporary_name, signals)
    }

    /// Adds probes, with names that `name` makes of this process and of numbers.
    pub(super) fn add_as(
        kernel: &'a Kernel,
        probes: &[Wanted],
        name: impl Fn(u32, usize) -> String,
        signals: &StopSignals,
    ) -> Result<Self> {
        let named = probes.iter().enumerate().map(|(index, probe)| Wanted {
            name: name(std::process::id(), index),
            ..probe.clone()
        });
        let added = kernel.add(&named.collect::<Vec<_>>(), || signals.has_come())?;
        Ok(Self {
            kernel,
            names: added.names,
            refused: added.refused,
        })
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Removes them, and reports an error.
    pub fn remove(mut self) -> Result<()> {
        self.kernel.remove_present(&std::mem::take(&mut self.names))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Another error is being reported.
        let _ = self.kernel.remove_present(&self.names);
    }
}

fn temporary_name(process: u32, index: usize) -> String {
    format!("watch.{process}.{index}")
}

/// The process that has added a probe of this name for as long as it runs. Names of events have no
/// dots.
fn maker(name: &str) -> Option<u32> {
    let (process, index) = name
        .strip_prefix("watch")?
        .get(1..)?
        .split_once(['.', '_'])?;
    let process = process.parse().ok()?;
    let index = index.parse().ok()?;
    let own = temporary_name(process, index);
    (name == own || name == own.replace('.', "_")).then_some(process)
}

/// Removes the probes that were there for as long as a process ran, and that were left when it was
/// killed. Returns how many. Does nothing while somebody watches: that may be in another namespace,
/// where processes have other numbers.
pub fn remove_abandoned(kernel: &Kernel) -> Result<usize> {
    let Ok(_lock) = kernel.lock() else {
        return Ok(0);
    };
    let is_left = |probe: &Probe| {
        let maker = maker(&probe.name);
        maker.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists())
    };
    let left = kernel.list()?.into_iter().filter(is_left);
    let names: Vec<_> = left.map(|probe| probe.name).collect();
    if !names.is_empty() {
        kernel.remove_left(&names)?;
    }
    Ok(names.len())
}

/// The place of a temporary probe among those that were wanted. Names of events have no dots.
pub(crate) fn temporary_index(name: &str) -> Option<usize> {
    name.rsplit(['.', '_']).next()?.parse().ok()
}

/// A probe and its counts.
struct Watched {
    probe: Probe,
    name: String,
    missed_before: u64,
    events: u64,
}

struct Watch<'a> {
    kernel: &'a Kernel,
    options: Options,
    /// The names of the temporary probes.
    names: BTreeSet<String>,
    live: Live<'a>,
    order: Order<Event>,
    probes: BTreeMap<u32, Watched>,
    /// True if no probes are watched.
    no_probes: bool,
    /// Why some have no hits: the kernel refuses those in files only now.
    refused: BTreeMap<String, Option<Error>>,
    dropped_before: u64,
    events: u64,
    /// When the current round began, if one is unfinished.
    began: Option<u64>,
    /// Everything before this time has been read.
    read_until: u64,
    /// Since when hits are wanted, and until when.
    start: Instant,
    end: Option<Instant>,
}

/// Gives hits to `show`, until that has no reader any more, a signal, the end of the time, or
/// enough hits. `ready` is called when the probes exist, with why others, of patterns, do not.
pub fn watch(
    kernel: &Kernel,
    options: Options,
    signals: &StopSignals,
    ready: impl FnOnce(&[Error]) -> Result<()>,
    show: &mut impl Show,
) -> Result<Counts> {
    let no_probes = options.probes.is_empty() && options.others;
    let (_lock, mut live) = match no_probes {
        true => (None, kernel.live_tracepoints()),
        false => (kernel.lock()?, kernel.live()?),
    };
    if !options.probes.is_empty() {
        // Old hits of other probes would only take room.
        drain(&mut live, |_| ())?;
    }
    let dropped = live.dropped()?;
    let mut temporary = Temporary::add(kernel, &options.probes, signals)?;
    let mut probes = BTreeMap::new();
    for tracepoint in &options.tracepoints {
        let probe = live.trace(tracepoint)?;
        let watched = Watched {
            name: probe.name.clone(),
            missed_before: 0,
            events: 0,
            probe,
        };
        probes.insert(watched.probe.id, watched);
    }
    let duration = options.duration;
    let mut watch = Watch {
        kernel,
        options,
        names: temporary.names.iter().cloned().collect(),
        live,
        order: Order::default(),
        probes,
        no_probes,
        refused: BTreeMap::new(),
        dropped_before: dropped,
        events: 0,
        began: None,
        read_until: 0,
        start: Instant::now(),
        end: None,
    };
    watch.look(true)?;
    temporary.refused.extend(watch.take_refused());
    watch.start = Instant::now();
    watch.live.start()?;
    show.start()?;
    ready(&temporary.refused)?;
    let end = duration.and_then(|duration| Instant::now().checked_add(duration));
    let mut goes_on = true;
    let mut rounds = 0;
    while goes_on && end.is_none_or(|end| Instant::now() < end) {
        let more = watch.round()?;
        let upto = watch.read_until;
        goes_on = watch.show(upto, show)?;
        rounds += 1;
        if rounds % LOOK == 0 {
            watch.live.scan()?;
            watch.look(false)?;
        }
        if goes_on {
            let left = end.map_or(ROUND, |end| end.saturating_duration_since(Instant::now()));
            let most = if more {
                Duration::ZERO
            } else {
                left.min(ROUND)
            };
            let stopped = watch.live.wait(signals, most);
            goes_on = !stopped.map_err(|errno| system("wait", errno))?;
        }
    }
    watch.end = Some(Instant::now());
    // To look and to remove probes takes time, and would be hits.
    watch.live.detach();
    watch.look(false)?;
    let order = &mut watch.order;
    // With a probe, tracefs removes the hits that nobody has read.
    drain(&mut watch.live, |event| order.add(event))?;
    temporary.remove()?;
    watch.live.scan()?;
    drain(&mut watch.live, |event| order.add(event))?;
    watch.show(u64::MAX, show)?;
    watch.counts()
}

/// Reads everything that is there now.
fn drain(live: &mut Live<'_>, mut to: impl FnMut(Event)) -> Result<()> {
    let began = now()?;
    for _ in 0..64 {
        if !live.turn(began, &mut to)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn system(action: &'static str, errno: nix::errno::Errno) -> Error {
    Error::Io(IoError {
        action,
        path: "/proc/self".into(),
        source: errno.into(),
    })
}

/// The clock of the records.
fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    let time = Duration::from(time.map_err(|errno| system("read the clock", errno))?);
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Watch<'_> {
    /// Updates the list of probes: all, or only the temporary ones.
    fn look(&mut self, first: bool) -> Result<()> {
        if self.no_probes {
            return Ok(());
        }
        let names = &self.names;
        for probe in self.kernel.list()? {
            let is_another = !names.is_empty() && !names.contains(&probe.name);
            if is_another || self.refused.contains_key(&probe.name) {
                continue;
            }
            let name = match names.is_empty() {
                true => probe.name.clone(),
                false => probe.place.shown().to_string(),
            };
            let before = if first { probe.missed } else { 0 };
            match self.probes.get_mut(&probe.id) {
                Some(watched) => watched.probe = probe,
                None => {
                    match self.live.attach(&probe) {
                        Err(error @ Error::Refused { .. }) if self.is_optional(&probe.name) => {
                            self.refused.insert(probe.name, Some(error));
                            continue;
                        }
                        other => other?,
                    }
                    let watched = Watched {
                        name,
                        missed_before: before,
                        events: 0,
                        probe,
                    };
                    self.probes.insert(watched.probe.id, watched);
                }
            }
        }
        if first && self.probes.is_empty() {
            if let Some((_, Some(error))) = self.refused.pop_last() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns why probes have no hits. They are not tried again.
    fn take_refused(&mut self) -> Vec<Error> {
        let why = |error: &mut Option<Error>| error.take();
        self.refused.values_mut().filter_map(why).collect()
    }

    /// Returns true if the others are watched without this probe: one of a pattern, or one that
    /// this has not added.
    fn is_optional(&self, name: &str) -> bool {
        let wanted = temporary_index(name).and_then(|index| self.options.probes.get(index));
        self.names.is_empty() || wanted.is_some_and(|probe| probe.of_pattern)
    }

    /// Reads what is there. Returns whether the round has to continue.
    fn round(&mut self) -> Result<bool> {
        let began = self.began.map_or_else(now, Ok)?;
        let order = &mut self.order;
        let more = self.live.turn(began, |event| order.add(event))?;
        self.began = more.then_some(began);
        if !more {
            let held = self.live.held_since().unwrap_or(u64::MAX);
            self.read_until = began.saturating_sub(SLACK).min(held);
        }
        Ok(more)
    }

    fn wanted(&self) -> u64 {
        let count = self.options.count.unwrap_or(u64::MAX);
        count.saturating_sub(self.events)
    }

    /// Shows the hits before this time. Returns whether more are wanted.
    fn show(&mut self, until: u64, show: &mut impl Show) -> Result<bool> {
        let events = self.live.finish(self.order.before(until));
        // A probe may have been added.
        let is_new = |event: &Event| !self.probes.contains_key(&event.probe);
        if self.names.is_empty() && events.iter().any(is_new) {
            self.look(false)?;
        }
        for event in events {
            if self.wanted() == 0 {
                break;
            }
            self.show_event(&event, show);
        }
        let now = Now {
            at: self
                .end
                .unwrap_or_else(Instant::now)
                .saturating_duration_since(self.start),
            dropped: &|| self.dropped(),
        };
        Ok(show.round(&now)? && self.wanted() != 0)
    }

    fn show_event(&mut self, event: &Event, show: &mut impl Show) {
        // Hits of probes that have gone, or of others, are not wanted.
        let Some(watched) = self.probes.get_mut(&event.probe) else {
            return;
        };
        if !self.options.pids.contain(event.pid) {
            return;
        }
        watched.events += 1;
        self.events += 1;
        show.hit(event, &watched.probe);
    }

    /// Hits that found no room meanwhile.
    fn dropped(&self) -> Result<u64> {
        Ok(self.live.dropped()?.saturating_sub(self.dropped_before))
    }

    fn counts(&self) -> Result<Counts> {
        let probes = self.probes.values().map(|watched| ProbeCounts {
            name: watched.name.clone(),
            events: watched.events,
            missed: watched.probe.missed.saturating_sub(watched.missed_before),
        });
        Ok(Counts {
            probes: probes.collect(),
            events: self.events,
            dropped: self.dropped()?,
            overwritten: self.live.overwritten(),
            late: self.order.late(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_made_a_probe() {
        assert_eq!(maker(&temporary_name(12, 3)), Some(12));
        assert_eq!(maker("watch_12_3"), Some(12));
        for other in [
            "watch.12",
            "watch.12.x",
            "watch.012.3",
            "watcher.1.2",
            "watch.1_2",
            "watch",
            "kernel_clone",
        ] {
            assert_eq!(maker(other), None, "{other}");
        }
    }
}
