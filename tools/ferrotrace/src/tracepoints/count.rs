// SPDX-License-Identifier: GPL-2.0

//! Counts of hits by keys in the kernel, by histogram triggers of tracefs: of tracepoints, and of
//! probes where our module does not count them. No hit is missing, however many there are.

#![deny(unsafe_code)]

mod probes;

use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::PathBuf;

use ferro_kprobe_events_core::probe_args::Type;

use super::error::Error;
use super::error::Result;
use super::format::Field;
use super::format::Format;
use super::format::word_of_key;
use super::resolve::Tracepoint;
use super::spec::STACKS;
use crate::file::IoError;
use crate::probes::error::Error as ProbeError;
use crate::probes::event::Value;
use crate::probes::event::text as harmless;
use crate::probes::model::Probe;
use crate::probes::model::ProbeArg;
use crate::probes::print::Returned;
use crate::probes::stock::instance::Instance;
use crate::probes::summary::By;
use crate::probes::summary::ValueOf;
use crate::probes::sums::Sums;
use crate::probes::sums::Values;
use crate::probes::symbols::Symbols;
pub use probes::ProbeCounter;

/// Number of keys that a histogram of the kernel can have.
const KEYS_MAX: usize = 3;

/// Maximum number of entries of a histogram, and of one by the CPU.
const ENTRIES: usize = 1 << 15;
const CPUS: usize = 1 << 12;

/// Entries of all histograms together, and the least of each.
const ALL_ENTRIES: usize = 1 << 18;
const ENTRIES_MIN: usize = 1 << 8;

/// Key of the thread's name, and the one in kernels before 6.16, which has the number, too.
const COMM: &str = "common_comm";
const COMM_OF_PID: &str = "common_pid.execname";

/// A part of a key.
#[derive(Clone, Debug)]
enum Part {
    /// The same for all hits.
    Constant(String),
    /// The name of the thread.
    Comm,
    /// A number.
    Plain,
    /// A field.
    Field(Box<Field>),
    /// An argument of a probe.
    Arg(Box<ProbeArg>),
    /// The value that a system call returned.
    Return {
        /// True for the name of the error instead.
        errno: bool,
    },
}

/// A key of the kernel's histogram, and the part of the user's key that it is.
#[derive(Clone, Debug)]
struct Key {
    name: String,
    part: Part,
}

/// An event with a histogram.
#[derive(Debug)]
struct Counted {
    dir: PathBuf,
    filter: String,
    probe: Probe,
    keys: Vec<Key>,
    /// Field with values to add up.
    value: Option<Added>,
    size: usize,
}

/// Field with values to add up.
#[derive(Clone, Debug)]
struct Added {
    name: String,
    is_signed: bool,
}

/// Counters of events.
#[derive(Debug)]
pub struct Counter {
    _instance: Instance,
    events: Vec<Counted>,
}

/// Counts so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Counts by the parts of the key.
    pub by_key: HashMap<Vec<String>, Sums>,
    /// Hits whose keys found no room.
    pub lost: u64,
}

/// Returns the key for `by` among the fields of an event; `None` if the kernel has no such key.
fn key(by: &By, tracepoint: &Tracepoint, format: &Format, of_return: bool) -> Option<Key> {
    let plain = |name: &str| Key {
        name: name.to_owned(),
        part: Part::Plain,
    };
    Some(match by {
        By::Place => Key {
            name: String::new(),
            part: Part::Constant(tracepoint.place.to_string()),
        },
        By::Comm => Key {
            name: COMM.to_owned(),
            part: Part::Comm,
        },
        By::Pid => plain("common_pid"),
        By::Cpu => plain("common_cpu"),
        By::Arg(name) if is_of_return(tracepoint, name) => Key {
            name: of_return.then(|| "ret".to_owned())?,
            part: Part::Return {
                errno: name == "errno",
            },
        },
        By::Arg(name) if of_return || STACKS.contains(&name.as_str()) => return None,
        By::Arg(name) => {
            let field = format.field(name)?;
            Key {
                name: field.text_name().unwrap_or_else(|| name.clone()),
                part: Part::Field(Box::new(field.clone())),
            }
        }
    })
}

/// Returns true if a key is the return value of a system call.
fn is_of_return(tracepoint: &Tracepoint, name: &str) -> bool {
    tracepoint.exit.is_some() && ["ret", "errno"].contains(&name)
}

/// Returns how many entries each of so many histograms has.
fn entries(events: usize) -> usize {
    let each = ALL_ENTRIES / events.max(1);
    // The kernel takes the next power of two.
    (each / 2 + 1)
        .next_power_of_two()
        .clamp(ENTRIES_MIN, ENTRIES)
}

/// Returns a filter that leaves the hits of this program out.
fn without_own(filter: &str) -> String {
    let own = format!("common_pid != {}", std::process::id());
    match filter.is_empty() {
        true => own,
        false => format!("({filter}) && {own}"),
    }
}

impl Counted {
    fn with(
        (dir, filter): (PathBuf, String),
        probe: Probe,
        keys: Vec<Key>,
        value: Option<Added>,
    ) -> Option<Self> {
        let named = keys.iter().filter(|key| !key.name.is_empty()).count();
        (named <= KEYS_MAX).then_some(Self {
            dir,
            filter,
            probe,
            keys,
            value,
            size: if named == 0 { CPUS } else { ENTRIES },
        })
    }

    /// Returns the event of a tracepoint whose hits the kernel can count by these keys, if there is
    /// one.
    fn of(
        tracepoint: &Tracepoint,
        by: &[By],
        value: Option<&ValueOf>,
        instance: &Instance,
    ) -> Option<Self> {
        let is_return = |name: &str| is_of_return(tracepoint, name);
        let wants_return = value.is_some_and(|value| is_return(&value.name))
            || by
                .iter()
                .any(|by| matches!(by, By::Arg(name) if is_return(name)));
        let exit = tracepoint.exit.as_ref();
        let exit = exit.filter(|exit| wants_return || !exit.filter.is_empty());
        let (event, format, filter) = match exit {
            Some(_) if tracepoint.is_entry_tested() => return None,
            Some(exit) => (&exit.event, &exit.format, &exit.filter),
            None => (&tracepoint.event, &tracepoint.format, &tracepoint.filter),
        };
        let keys = by
            .iter()
            .map(|by| key(by, tracepoint, format, exit.is_some()));
        let keys = keys.collect::<Option<Vec<_>>>()?;
        let value = match value {
            None => None,
            Some(value) => {
                let is_possible = exit.is_none() || is_return(&value.name);
                let field = format.field(&value.name).filter(|_| is_possible)?;
                Some(Added {
                    name: value.name.clone(),
                    is_signed: field.is_signed_word()?,
                })
            }
        };
        let place = (instance.event(event), without_own(filter));
        Self::with(place, tracepoint.probe(0), keys, value)
    }

    fn trigger(&self, what: &str) -> String {
        let names = self.keys.iter().map(|key| key.name.as_str());
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let names = match names.is_empty() {
            // A histogram has a key.
            true => "common_cpu".to_owned(),
            false => names.join(","),
        };
        let values = self.value.as_ref();
        let values = values.map_or(String::new(), |value| format!("vals={}:", value.name));
        format!(
            "hist:keys={names}:{values}size={}:{what} if {}\n",
            self.size, self.filter
        )
    }

    fn write(&self, what: &str) -> io::Result<()> {
        // Opening it with O_TRUNC removes all triggers.
        let mut file = File::options()
            .append(true)
            .open(self.dir.join("trigger"))?;
        file.write_all(self.trigger(what).as_bytes())
    }

    fn refused(&self, source: io::Error) -> Error {
        let path = self.dir.join("trigger");
        match source.raw_os_error().map(nix::errno::Errno::from_raw) {
            Some(nix::errno::Errno::EACCES | nix::errno::Errno::EPERM) => Error::Denied(path),
            Some(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOENT) => Error::Key {
                event: self.probe.place.to_string(),
                trigger: self.trigger("pause").trim_end().to_owned(),
            },
            _ => Error::Io(IoError {
                action: "write to",
                path,
                source,
            }),
        }
    }

    /// Creates the histogram, paused.
    fn create(&mut self) -> Result<()> {
        let mut written = self.write("pause");
        let by_comm = |key: &&mut Key| key.name == COMM;
        if written.is_err() {
            if let Some(key) = self.keys.iter_mut().find(by_comm) {
                key.name = COMM_OF_PID.to_owned();
                written = self.write("pause");
            }
        }
        written.map_err(|error| self.refused(error))
    }

    /// Adds the counts of the kernel.
    fn add_to(&self, symbols: &Symbols, counts: &mut Counts) -> Result<()> {
        let path = self.dir.join("hist");
        let read = fs::read(&path);
        let bytes = read.map_err(|source| {
            Error::Io(IoError {
                action: "read",
                path,
                source,
            })
        })?;
        let text = String::from_utf8_lossy(&bytes);
        for line in text.lines() {
            if let Some(dropped) = line.trim().strip_prefix("Dropped:") {
                let dropped: u64 = dropped.trim().parse().unwrap_or(0);
                counts.lost = counts.lost.saturating_add(dropped);
            }
        }
        // A text in a key may have several lines.
        for row in text.split("\n{ ").skip(1) {
            if let Some((key, sums)) = self.row(row, symbols) {
                counts.by_key.entry(key).or_default().merge(&sums);
            }
        }
        Ok(())
    }

    /// Parses a row of the kernel's table.
    pub(super) fn row(&self, row: &str, symbols: &Symbols) -> Option<(Vec<String>, Sums)> {
        let (keys, sums) = row.rsplit_once("} hitcount:")?;
        let sums = self.sums(sums.lines().next()?)?;
        // From the end: a text before a key may contain a separator.
        let mut rest = keys;
        let mut parts = Vec::new();
        for key in self.keys.iter().rev() {
            if let Part::Constant(place) = &key.part {
                parts.push(place.clone());
                continue;
            }
            let name = key.name.split('.').next().unwrap_or_default();
            let name = format!("{name}:");
            let at = rest.rfind(&format!(", {name}")).map(|at| (at, at + 2));
            let (before, at) = at.unwrap_or((0, 0));
            let value = rest.get(at..)?.strip_prefix(&name)?.trim();
            parts.push(self.part(key, value, symbols));
            rest = rest.get(..before)?;
        }
        parts.reverse();
        Some((parts, sums))
    }

    /// Parses the number of hits, and the sum of their values.
    fn sums(&self, text: &str) -> Option<Sums> {
        let mut words = text.split_whitespace();
        let hits = words.next()?.parse().ok()?;
        let Some(value) = &self.value else {
            return Some(Sums::of_hits(hits, Values::default()));
        };
        let (name, sum) = (words.next()?, words.next()?);
        let sum = word_of_key(sum).filter(|_| name.strip_suffix(':') == Some(&value.name))?;
        let sum = match value.is_signed {
            true => i64::from_ne_bytes(sum.to_ne_bytes()).into(),
            false => sum.into(),
        };
        let values = Values {
            count: hits,
            sum,
            ..Values::default()
        };
        Some(Sums::of_hits(hits, values))
    }

    fn part(&self, key: &Key, value: &str, symbols: &Symbols) -> String {
        match &key.part {
            Part::Comm if key.name == COMM_OF_PID => value
                .rsplit_once('[')
                .map_or(value, |(comm, _)| comm.trim())
                .to_owned(),
            Part::Field(field) => field.value_of_key(value),
            Part::Arg(arg) => match (arg.arg.ty, word_of_key(value)) {
                (Type::Text { len }, _) => {
                    // The probe may cut it shorter than the histogram does.
                    let most = usize::from(len).saturating_sub(1).min(value.len());
                    let bytes = value.as_bytes().get(..most).unwrap_or_default();
                    Value::Text(harmless(bytes)).text(0, symbols)
                }
                (_, Some(word)) => {
                    let value = Value::of_word(arg, word, false);
                    value.text_in_key(&arg.name, &self.probe, 0, symbols)
                }
                (_, None) => value.to_owned(),
            },
            Part::Return { errno } => {
                let Some(word) = word_of_key(value) else {
                    return value.to_owned();
                };
                let returned = Returned::of(&self.probe, word);
                match errno {
                    true => returned.errno().unwrap_or_else(|| "-".to_owned()),
                    false => returned.to_string(),
                }
            }
            _ => value.to_owned(),
        }
    }
}

impl Counter {
    /// Creates counters for tracepoints; `None` if the kernel cannot count by these keys, or has no
    /// such figures.
    pub fn create(
        tracepoints: &[Tracepoint],
        by: &[By],
        value: Option<&ValueOf>,
    ) -> Result<Option<Self>> {
        if !has_only_sum(value) {
            return Ok(None);
        }
        let tracing = Instance::tracing()?.ok_or(ProbeError::NoTracefs)?;
        let instance = Instance::create(&tracing)?;
        let events = tracepoints
            .iter()
            .map(|one| Counted::of(one, by, value, &instance));
        match events.collect::<Option<Vec<_>>>() {
            Some(events) => Self::with(instance, events).map(Some),
            None => Ok(None),
        }
    }

    fn with(instance: Instance, mut events: Vec<Counted>) -> Result<Self> {
        let size = entries(events.len());
        for event in &mut events {
            event.size = event.size.min(size);
            event.create()?;
        }
        Ok(Self {
            _instance: instance,
            events,
        })
    }

    fn all(&self, what: &str) -> Result<()> {
        let mut events = self.events.iter();
        events.try_for_each(|event| event.write(what).map_err(|error| event.refused(error)))
    }

    /// Begins to count.
    pub fn start(&self) -> Result<()> {
        self.all("continue")
    }

    /// Pauses all counters.
    pub fn stop(&self) -> Result<()> {
        self.all("pause")
    }

    /// Adds the counts so far.
    pub fn add_to(&self, symbols: &Symbols, counts: &mut Counts) -> Result<()> {
        let mut events = self.events.iter();
        events.try_for_each(|event| event.add_to(symbols, counts))
    }
}

/// Returns true if no figure but the sum of values is wanted, which is all that histograms have.
fn has_only_sum(value: Option<&ValueOf>) -> bool {
    value.is_none_or(|value| !value.has_classes && !value.has_extremes)
}

#[cfg(test)]
mod tests {
    use super::super::resolve::Available;
    use super::super::resolve::tests::tracefs;
    use super::*;
    use crate::probes::screen::Sort;

    fn counted(text: &str, by: &[By]) -> Option<(tempfile::TempDir, Counted)> {
        summed(text, by, None)
    }

    fn summed(
        text: &str,
        by: &[By],
        value: Option<&ValueOf>,
    ) -> Option<(tempfile::TempDir, Counted)> {
        let (dir, available): (_, Available) = tracefs();
        fs::create_dir(dir.path().join("instances")).unwrap();
        let instance = Instance::create(dir.path()).unwrap();
        let found = available.resolve(&text.parse().unwrap()).unwrap();
        let counted = Counted::of(&found[0], by, value, &instance)?;
        fs::create_dir_all(&counted.dir).unwrap();
        fs::write(counted.dir.join("trigger"), "").unwrap();
        std::mem::forget(instance);
        Some((dir, counted))
    }

    /// Parses a row, and returns the key and the number of hits.
    pub(super) fn row(counted: &Counted, row: &str) -> (Vec<String>, u64) {
        let (key, sums) = counted.row(row, &Symbols::default()).unwrap();
        (key, sums.times.calls)
    }

    pub(super) fn sum_of(name: &str) -> ValueOf {
        ValueOf {
            name: name.to_owned(),
            has_classes: false,
            has_extremes: false,
            sort: Sort::Total,
        }
    }

    pub(super) fn by(name: &str) -> By {
        name.parse().unwrap()
    }

    #[test]
    fn rows_of_the_kernel() {
        let keys = [by("next_comm"), by("prev_state"), by("place")];
        let (_dir, switch) = counted("sched:sched_switch if prev_state!=0", &keys).unwrap();
        let own = std::process::id();
        assert_eq!(
            switch.trigger("pause"),
            format!(
                "hist:keys=next_comm,prev_state:size=32768:pause if (prev_state != 0) && common_pid != {own}\n"
            )
        );
        switch.write("pause").unwrap();
        fs::write(
            switch.dir.join("hist"),
            "# event histogram\n\n\
             { next_comm: swapper/0                                         , prev_state:          2 } hitcount:         12\n\
             { next_comm: a, prev_state: x, prev_state:          1 } hitcount:          3\n\n\
             Totals:\n    Hits: 15\n    Entries: 2\n    Dropped: 4\n",
        )
        .unwrap();
        let mut counts = Counts::default();
        switch.add_to(&Symbols::default(), &mut counts).unwrap();
        assert_eq!(counts.lost, 4);
        let count = |parts: [&str; 3]| {
            let sums = counts.by_key.get(&parts.map(str::to_owned).to_vec());
            sums.map(|sums| sums.times.calls)
        };
        assert_eq!(count(["swapper/0", "D", "sched:sched_switch"]), Some(12));
        assert_eq!(
            count(["a, prev_state: x", "S", "sched:sched_switch"]),
            Some(3)
        );
    }

    #[test]
    fn names_and_returns() {
        let (_dir, mut by_comm) = counted("sched:sched_switch", &[by("comm")]).unwrap();
        let (key, _) = row(&by_comm, "common_comm: cat [x]     } hitcount:  1");
        assert_eq!(key, ["cat [x]"]);
        by_comm.keys[0].name = COMM_OF_PID.to_owned();
        let of_pid = "common_pid: cat [x]         [       1234] } hitcount:  1";
        assert_eq!(row(&by_comm, of_pid).0, ["cat [x]"]);
        let keys = [by("ret"), by("errno"), by("pid")];
        let (_dir, mut call) = counted("syscall:openat if ret<0", &keys[..2]).unwrap();
        call.keys.truncate(1);
        let found = row(&call, "ret: 18446744073709551614 } hitcount:  7\n");
        assert_eq!(found, (vec!["-2 (ENOENT)".to_owned()], 7));
        assert!(call.dir.ends_with("sys_exit_openat"));
        // All hits.
        let (_dir, all) = counted("syscall:openat", &[by("place")]).unwrap();
        assert!(all.trigger("continue").starts_with("hist:keys=common_cpu:"));
        let found = row(&all, "common_cpu:          1 } hitcount:         32");
        assert_eq!(found, (vec!["syscall:openat".to_owned()], 32));
        // Not for the kernel.
        for (text, keys) in [
            ("syscall:openat if filename==x", &[by("ret")][..]),
            ("syscall:openat", &[by("ret"), by("flags")]),
            ("sched:sched_switch", &[by("stack")]),
            (
                "sched:sched_switch",
                &[by("comm"), by("pid"), by("cpu"), by("next_comm")],
            ),
        ] {
            assert!(counted(text, keys).is_none(), "{text}");
        }
    }

    #[test]
    fn sums() {
        let (_dir, call) = summed("syscall:openat", &[by("comm")], Some(&sum_of("ret"))).unwrap();
        assert!(call.dir.ends_with("sys_exit_openat"));
        let start = "hist:keys=common_comm:vals=ret:size=32768:continue if ";
        assert!(call.trigger("continue").starts_with(start));
        let line =
            "common_comm: cat } hitcount:          3  ret: 18446744073709551612\n\nTotals:\n";
        let (key, sums) = call.row(line, &Symbols::default()).unwrap();
        assert_eq!((key, sums.times.calls), (vec!["cat".to_owned()], 3));
        let values = &sums.values;
        assert_eq!((values.count, values.sum, values.min), (3, -4, None));
        // Another figure than the one that was asked for.
        let line = "common_comm: cat } hitcount:          3  xyz: 4\n";
        assert!(call.row(line, &Symbols::default()).is_none());
        // Keys and values of two events.
        assert!(summed("syscall:openat", &[by("ret")], Some(&sum_of("flags"))).is_none());
        let (_dir, call) = summed("syscall:openat", &[], Some(&sum_of("flags"))).unwrap();
        assert!(call.dir.ends_with("sys_enter_openat"));
        let mut value = sum_of("ret");
        assert!(has_only_sum(Some(&value)));
        value.has_extremes = true;
        assert!(has_only_sum(None) && !has_only_sum(Some(&value)));
    }

    #[test]
    fn sizes() {
        assert_eq!(
            (entries(0), entries(1), entries(8)),
            (ENTRIES, ENTRIES, ENTRIES)
        );
        assert_eq!(
            (entries(9), entries(100), entries(1 << 20)),
            (1 << 14, 1 << 11, ENTRIES_MIN)
        );
    }
}
