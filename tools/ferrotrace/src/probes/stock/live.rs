// SPDX-License-Identifier: GPL-2.0

//! Reading the hits as they come, from an instance of tracefs that exists for this only.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;

use super::ENTRY;
use super::GROUP;
use super::MARK;
use super::Stock;
use super::instance::Instance;
use super::instance::failed;
use super::instance::read_page;
use super::losses::Loss;
use super::losses::Losses;
use super::record::Known;
use super::record::event;
use super::record::unmarked;
use super::ring;
use super::stacks::Held;
use super::stacks::StackEvent;
use super::stacks::add_stack;
use super::stacks::stack_event;
use crate::probes::control::errno;
use crate::probes::error::Error;
use crate::probes::error::Refusal;
use crate::probes::error::Result;
use crate::probes::event::Event;
use crate::probes::model::Probe;
use crate::tracepoints::comm::Comms;
use crate::tracepoints::hit::Events;
use crate::tracepoints::resolve::Tracepoint;

/// Calls of a function that a thread may be in at a time; more are recursion without an end, or calls whose returns are not seen.
const DEPTH: usize = 64;

/// Events with stacks, the options that have them recorded, and whether they are of user space.
const STACK_EVENTS: [(&str, &str, bool); 2] = [
    ("kernel_stack", "stacktrace", false),
    ("user_stack", "userstacktrace", true),
];

/// An answer of the kernel that is not for user space, and comes nevertheless.
const ENOTSUPP: i32 = 524;

/// More than a page of the buffer has.
const PAGE: usize = 1 << 16;

/// The hits of all CPUs.
pub struct StockLive {
    // Before the instance, which has to have no readers when it goes.
    cpus: Vec<(u32, PathBuf, File)>,
    instance: Instance,
    known: BTreeMap<u16, Known>,
    /// The events at the entry of functions, and those at the return.
    entries: BTreeMap<u16, u16>,
    /// When threads have entered the function of a return.
    began: HashMap<(i32, u16), Vec<u64>>,
    /// Of the kernel and of user space, if any are wanted.
    stacks: Vec<StackEvent>,
    /// Of each CPU, the last hit that wants some.
    held: HashMap<u32, Held>,
    /// The time of the last event of each CPU.
    last: HashMap<u32, u64>,
    losses: Losses,
    /// Tracepoints and system calls.
    events: Events,
    /// Hits that found no room, from the end of recording on: the kernel's counts go with the
    /// events.
    dropped: Option<u64>,
}

impl StockLive {
    /// Makes an instance, without any events.
    pub fn open(tracing: &Path) -> Result<Self> {
        Self::of(Instance::create(tracing)?, tracing)
    }

    fn of(instance: Instance, tracing: &Path) -> Result<Self> {
        Ok(Self {
            cpus: instance.pipes()?,
            instance,
            known: BTreeMap::new(),
            entries: BTreeMap::new(),
            began: HashMap::new(),
            stacks: Vec::new(),
            held: HashMap::new(),
            last: HashMap::new(),
            losses: Losses::default(),
            events: Events::new(Comms::new(tracing), MARK),
            dropped: None,
        })
    }

    fn event(&self, name: &str) -> PathBuf {
        Stock::event(self.instance.dir(), name)
    }

    /// Has hits of a probe recorded, from now on if this has started.
    pub fn attach(&mut self, stock: &Stock, probe: &Probe) -> Result<()> {
        let dir = self.event(&probe.name);
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path);
            text.map_err(|error| failed("read", &path, error))
        };
        let write = |path: PathBuf, text: &str| {
            let written = fs::write(&path, text);
            written.map_err(|error| failed("write to", &path, error))
        };
        let format = read(dir.join("format"))?;
        let filter = read(Stock::event(&stock.tracing, &probe.name).join("filter"))?;
        let id = unmarked(probe.id);
        let known = Known::new(probe, &format, filter.trim()).ok_or_else(|| {
            let error = io::Error::from(io::ErrorKind::InvalidData);
            failed("find an address in", &dir.join("format"), error)
        })?;
        let is_return = known.is_return;
        for (name, option, user) in STACK_EVENTS {
            if !known.has_stack(user) {
                continue;
            }
            self.record_stacks(&stock.tracing, name, option)?;
        }
        self.known.insert(id, known);
        if filter.trim() != "none" && !filter.trim().is_empty() {
            write(dir.join("filter"), filter.trim())?;
        }
        if is_return {
            let entry = self.event(&format!("{}{ENTRY}", probe.name));
            if let Some(number) = read(entry.join("id"))
                .ok()
                .and_then(|id| id.trim().parse().ok())
            {
                self.entries.insert(number, id);
                write(entry.join("enable"), "1")?;
            }
        }
        let enabled = fs::write(dir.join("enable"), "1");
        enabled.map_err(|error| {
            // A uprobe finds out only now whether the instruction can be probed.
            let errno = match error.raw_os_error() {
                Some(ENOTSUPP) => Errno::EOPNOTSUPP,
                _ => errno(&error),
            };
            let log = Vec::new();
            Error::Refused {
                place: probe.place.clone(),
                refusal: Refusal { errno, log },
            }
        })
    }

    /// Has stacks recorded with all events of the instance.
    fn record_stacks(&mut self, tracing: &Path, name: &str, option: &str) -> Result<()> {
        self.instance
            .write(&Path::new("options").join(option), "1")?;
        let format = Path::new("events/ftrace").join(name).join("format");
        let path = self.instance.dir().join(&format);
        // Older kernels have it at the top only.
        let text = fs::read_to_string(&path).or_else(|_| fs::read_to_string(tracing.join(&format)));
        let text = text.map_err(|error| failed("read", &path, error))?;
        let event = stack_event(&text).ok_or_else(|| {
            let error = io::Error::from(io::ErrorKind::InvalidData);
            failed("find a stack in", &path, error)
        })?;
        if self.stacks.iter().all(|known| known.id != event.id) {
            self.stacks.push(event);
        }
        Ok(())
    }

    /// Records the hits of a tracepoint, except hits of this process. Returns the probe with them.
    pub fn trace(&mut self, tracing: &Path, tracepoint: &Tracepoint) -> Result<Probe> {
        // Kernels before 5.8 do not have it.
        let own = std::process::id().to_string();
        let _ = self
            .instance
            .write(Path::new("set_event_notrace_pid"), &own);
        for (name, option, user) in STACK_EVENTS {
            if tracepoint.has_stack(user) {
                self.record_stacks(tracing, name, option)?;
            }
        }
        let exit = tracepoint.exit.as_ref();
        let exit = exit.map(|exit| (exit.event.as_str(), exit.filter.as_str()));
        for (event, filter) in [(tracepoint.event.as_str(), tracepoint.filter.as_str())]
            .into_iter()
            .chain(exit)
        {
            if !filter.is_empty() {
                self.set_filter(event, filter, tracepoint)?;
            }
            self.instance.enable(event)?;
        }
        let id = self.events.add(tracepoint);
        Ok(tracepoint.probe(MARK | u32::from(id)))
    }

    fn set_filter(&self, event: &str, filter: &str, tracepoint: &Tracepoint) -> Result<()> {
        let path = self.instance.event(event).join("filter");
        fs::write(&path, filter).map_err(|error| match errno(&error) {
            Errno::EINVAL => {
                // The file has the reason then.
                let text = fs::read_to_string(&path).unwrap_or_default();
                let why = text.lines().next_back().unwrap_or_default();
                let why = why.trim().trim_start_matches(['^', ' ']);
                let why = why.strip_prefix("parse_error:").unwrap_or(why).trim();
                Error::TracefsFilter {
                    event: tracepoint.place.clone(),
                    filter: filter.to_owned(),
                    why: why.to_owned(),
                }
            }
            _ => failed("write to", &path, error),
        })
    }

    /// Has hits recorded from now on. Until then what this program does itself is none.
    pub fn start(&self) -> Result<()> {
        self.instance.start()
    }

    /// Has nothing recorded any more.
    pub fn detach(&mut self) {
        self.instance.stop();
        self.dropped = Some(self.dropped());
        // The group goes with its last event.
        let path = Path::new("events").join(GROUP).join("enable");
        let _ = self.instance.write(&path, "0");
    }

    /// Hits that found no room.
    pub fn dropped(&self) -> u64 {
        let count = || {
            let cpus = self.cpus.iter();
            cpus.map(|(cpu, _, _)| self.instance.lost(*cpu)).sum()
        };
        self.dropped.unwrap_or_else(count)
    }

    /// Reads what there is, at most so many pages of each CPU, but not after an event of which `to` says that it is the last that
    /// is wanted. Returns whether there may be more of those.
    pub fn turn(&mut self, pages: usize, mut to: impl FnMut(Event) -> bool) -> Result<bool> {
        let mut bytes = vec![0; PAGE];
        let mut more = false;
        self.events.renew();
        for held in self.held.values_mut() {
            held.is_old = true;
        }
        for (cpu, path, file) in &mut self.cpus {
            let mut left = pages;
            let mut last = false;
            while left > 0 && !last {
                left -= 1;
                let len =
                    read_page(file, &mut bytes).map_err(|error| failed("read", path, error))?;
                last |= len == 0;
                let page = bytes.get(..len).unwrap_or_default();
                let before = self.last.entry(*cpu).or_default();
                if let Some(until) = ring::lost_until(page) {
                    self.losses.add(*before, until);
                }
                ring::events(page, |time, data| {
                    *before = time;
                    if let Some(held) = self.held.get_mut(cpu) {
                        if add_stack(&self.stacks, held, data) {
                            return;
                        }
                    }
                    let found = event(&self.known, &self.entries, time, *cpu, data);
                    if let Some(event) = found.or_else(|| self.events.event(time, *cpu, data)) {
                        if let Some(before) = self.held.remove(cpu) {
                            last |= to(before.event);
                        }
                        if self.stacks.is_empty() {
                            last |= to(event);
                            return;
                        }
                        self.held.insert(*cpu, Held::new(event));
                    }
                });
            }
            if self.held.get(cpu).is_some_and(|held| held.is_old) {
                if let Some(before) = self.held.remove(cpu) {
                    last |= to(before.event);
                }
            }
            more |= !last;
        }
        Ok(more)
    }

    /// The time of the first hit that still waits for its stacks.
    pub fn held_since(&self) -> Option<u64> {
        self.held.values().map(|held| held.event.time).min()
    }

    /// Takes the entries of functions out, and gives their times to the returns.
    pub fn pair(&mut self, events: Vec<Event>) -> Vec<Event> {
        let mut paired = Vec::with_capacity(events.len());
        for mut event in events {
            if event.probe & MARK == 0 {
                // One of the module's.
                paired.push(event);
                continue;
            }
            let id = unmarked(event.probe);
            let is_known = match self.losses.at(event.time) {
                Loss::None => true,
                // A call that began before may have ended since.
                Loss::Passed => {
                    self.began.clear();
                    self.events.forget();
                    true
                }
                Loss::Within => {
                    self.began.clear();
                    self.events.forget();
                    false
                }
            };
            if self.events.has(id) {
                paired.extend(self.events.pair(id, event));
                continue;
            }
            if let Some(returns) = self.entries.get(&id) {
                if !is_known {
                    continue;
                }
                let began = self.began.entry((event.pid, *returns)).or_default();
                if began.len() == DEPTH {
                    began.remove(0);
                }
                began.push(event.time);
                continue;
            }
            if event.is_return {
                let began = self.began.get_mut(&(event.pid, id));
                let began = began.and_then(Vec::pop);
                event.duration = began.map(|began| event.time.saturating_sub(began));
            }
            paired.push(event);
        }
        paired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_have_durations() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let instance = Instance::create(dir.path()).unwrap();
        fs::create_dir(instance.dir().join("per_cpu")).unwrap();
        let mut live = StockLive::of(instance, dir.path()).unwrap();
        live.entries = BTreeMap::from([(9, 10)]);
        let make = |time, probe: u32, pid| Event {
            time,
            probe: MARK | probe,
            pid,
            is_return: probe == 10,
            duration: None,
            ..crate::probes::event::tests::event(time)
        };
        let events = vec![
            make(1, 9, 1),
            make(2, 9, 1),
            make(3, 9, 2),
            make(10, 10, 1),
            make(20, 10, 1),
            make(30, 10, 2),
            make(40, 10, 3),
            make(50, 7, 1),
        ];
        let paired = live.pair(events);
        let durations: Vec<_> = paired.iter().map(|event| event.duration).collect();
        assert_eq!(durations, [Some(8), Some(19), Some(27), None, None]);
        // Between the times 110 and 120 a CPU has lost events: of calls that begin or end then, or
        // have begun before, the time is not known.
        live.losses.add(110, 120);
        let events = vec![
            make(101, 9, 1),
            make(102, 9, 2),
            make(103, 9, 3),
            make(108, 10, 3),
            make(112, 10, 2),
            make(115, 9, 2),
            make(125, 10, 1),
            make(126, 10, 2),
            make(130, 9, 1),
            make(135, 10, 1),
        ];
        let durations: Vec<_> = live
            .pair(events)
            .iter()
            .map(|event| event.duration)
            .collect();
        assert_eq!(durations, [Some(5), None, None, None, Some(5)]);
    }

    /// The kernel clears its counts when events are removed.
    #[test]
    fn losses_are_known_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let instance = Instance::create(dir.path()).unwrap();
        let cpu = instance.dir().join("per_cpu/cpu0");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("trace_pipe_raw"), "").unwrap();
        fs::write(cpu.join("stats"), "overrun: 7\n").unwrap();
        let mut live = StockLive::of(instance, dir.path()).unwrap();
        assert_eq!(live.dropped(), 7);
        live.detach();
        fs::write(cpu.join("stats"), "overrun: 0\n").unwrap();
        assert_eq!(live.dropped(), 7);
    }
}
