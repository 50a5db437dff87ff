// SPDX-License-Identifier: GPL-2.0

//! Hits that the module adds up by keys: `struct ferrotrace_probe_totals` of
//! `<linux/ferrotrace_kprobe_events.h>`.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Instant;

use ferro_core::histogram::CLASSES;
use ferro_kprobe_events_core::probe_args::Args;
use ferro_kprobe_events_core::probe_args::Type;

use super::error::Error;
use super::error::Result;
use super::event::Event;
use super::event::Seen;
use super::event::calls_at;
use super::event::faults_at;
use super::event::text;
use super::kernel::Kernel;
use super::model::Kind;
use super::model::Probe;
use super::model::ProbeArg;
use super::resolve::Wanted;
use super::summary::By;
use super::summary::Style;
use super::summary::Summary;
use super::summary::Timed;
use super::summary::ValueOf;
use super::sums::Sums;
use super::sums::Values;
use super::watch::Now;
use super::watch::Options;
use super::watch::ROUND;
use super::watch::Show;
use super::watch::Temporary;
use super::watch::system;
use crate::file::IoError;
use crate::functions::histogram::Histogram;
use crate::functions::tally::Stats;
use crate::signals::StopSignals;

/// Format of the file.
const VERSION: u32 = 1;

/// Bytes of the tables of all CPUs.
const MEMORY: usize = 64 << 20;

/// Limits of the number of rows of a CPU.
const ROWS: std::ops::RangeInclusive<usize> = 256..=16384;

/// Words of a row, except its key and what a timed one has for its times.
const ROW_WORDS: usize = 2;

/// Words of a row for its times, or for its values.
const TIME_WORDS: usize = 2 + CLASSES;
const VALUE_WORDS: usize = 4;

/// Calls of a stack.
const CALLS: usize = 64;

/// Words of a thread's name.
const COMM_WORDS: usize = 2;

/// Most bytes of the arguments of a key.
const ARGS_MAX: usize = 192;

/// Tables in the kernel, and the probes that they are for.
struct Tables {
    /// Registers probes for these tables.
    kernel: Kernel,
    file: Rc<File>,
    parts: Parts,
}

/// Contents of the tables.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// A hit with the key, and its sums, for each row.
    pub(super) rows: Vec<(Event, Sums)>,
    /// Hits that were left out, as tables were full.
    pub(super) left_out: u64,
}

/// Returns the command that makes tables for these probes, if the kernel can add up their hits by
/// these keys.
fn command(probes: &[Wanted], by: &[By], timed: Timed, value: Option<&ValueOf>) -> Option<String> {
    let has = |part: &By| by.contains(part);
    let names: Vec<_> = by.iter().map(By::name).collect();
    let keys = names.join(",");
    let mut words = 1_usize;
    for probe in probes {
        let args = Args::parse(&probe.args, probe.kind == Kind::Return)?;
        let selected: Vec<_> = args.selected(&keys).map(|(_, arg)| arg).collect();
        let size = match value {
            Some(value) => args.value(&keys, &value.name)?.end(),
            None => selected.last().map_or(0, |arg| arg.end()),
        };
        // The process may have exited when its addresses are looked up.
        let is_user = |ty| matches!(ty, Type::Stack { user: true });
        if probe.at.is_some() || size > ARGS_MAX || selected.iter().any(|arg| is_user(arg.ty)) {
            return None;
        }
        let stacks = selected.iter().filter(|arg| arg.ty.is_stack()).count();
        words = words.max(1 + size.div_ceil(8) + stacks * CALLS);
    }
    words += usize::from(has(&By::Pid)) + usize::from(has(&By::Comm)) * COMM_WORDS;
    let (figures, more) = match (timed, value) {
        (Timed::No, None) => (String::new(), 0),
        (Timed::No, Some(value)) => {
            let classes = if value.has_classes { " classes=1" } else { "" };
            (format!(" value={}{classes}", value.name), VALUE_WORDS)
        }
        (Timed::Calls, _) => (" times=1".to_owned(), TIME_WORDS),
        (Timed::Since(_), _) => return None,
    };
    let row = (ROW_WORDS + words + more) * size_of::<u64>();
    let rows = MEMORY / cpus() / row;
    // The kernel takes the next power of two.
    let rows = (rows / 2 + 1).clamp(*ROWS.start(), *ROWS.end());
    Some(format!("by {keys}{figures} rows={rows} words={words}"))
}

/// Returns the number of CPUs that there may be.
fn cpus() -> usize {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible");
    let last = possible.ok().and_then(|text| {
        let last = text.trim().rsplit(['-', ',']).next()?;
        last.parse::<usize>().ok()
    });
    last.map_or(1, |last| last.saturating_add(1))
}

/// Reads tables.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<usize> {
        let bytes = self.bytes(2)?.first_chunk()?;
        Some(usize::from(u16::from_ne_bytes(*bytes)))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.bytes(4)?.first_chunk()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.bytes(8)?.first_chunk()?))
    }
}

/// Parts of a key.
#[derive(Clone, Copy, Debug)]
struct Parts {
    pid: bool,
    comm: bool,
    /// True for tables of values: with classes, or without.
    value: Option<bool>,
}

impl Totals {
    /// Reads the file's contents. `probes` have the arguments of the key only.
    fn parse(bytes: &[u8], probes: &BTreeMap<u32, Probe>, parts: Parts) -> Option<Self> {
        let mut reader = Reader { rest: bytes };
        if reader.u32()? != VERSION {
            return None;
        }
        let count = reader.u32()?;
        let left_out = reader.u64()?;
        let mut rows = Vec::new();
        for _ in 0..count {
            rows.extend(Self::row(&mut reader, probes, parts)?);
        }
        Some(Self { rows, left_out })
    }

    /// Reads a row. The inner value is `None` for a probe that is not one of these.
    fn row(
        reader: &mut Reader<'_>,
        probes: &BTreeMap<u32, Probe>,
        parts: Parts,
    ) -> Option<Option<(Event, Sums)>> {
        let cpu = reader.u32()?;
        let words = reader.u16()?;
        let classes = reader.u16()?;
        let calls = reader.u64()?;
        let numbers = Numbers {
            sum: u128::from(reader.u64()?) | u128::from(reader.u64()?) << 64,
            min: reader.u64()?,
            max: reader.u64()?,
        };
        let mut key = Reader {
            rest: reader.bytes(words.checked_mul(8)?)?,
        };
        let mut histogram = Histogram::default();
        for _ in 0..classes {
            let class = usize::try_from(reader.u64()?).ok()?;
            let count = reader.u64()?;
            if class >= CLASSES {
                return None;
            }
            histogram.add_to_class(class, count);
        }
        let _words = key.u16()?;
        let probe = u32::try_from(key.u16()?).ok()?;
        let faults = key.u32()?;
        let pid = match parts.pid {
            true => i32::from_ne_bytes(*key.bytes(8)?.first_chunk()?),
            false => 0,
        };
        let comm = match parts.comm {
            true => text(key.bytes(COMM_WORDS * 8)?),
            false => String::new(),
        };
        let Some(described) = probes.get(&probe) else {
            return Some(None);
        };
        let args = &described.args;
        let size = args.iter().map(|arg| arg.arg.end()).max().unwrap_or(0);
        let area = key
            .bytes(size.next_multiple_of(8).min(key.rest.len()))?
            .to_vec();
        let sums = match parts.value {
            Some(has_classes) => {
                let class = i64::from_ne_bytes(key.u64()?.to_ne_bytes());
                let is_read = faults & 1_u32.checked_shl(u32::try_from(args.len()).ok()?)? == 0;
                let values = numbers.values(calls, class, has_classes);
                let unread = Values {
                    unread: calls,
                    ..Values::default()
                };
                Sums::of_hits(calls, if is_read { values } else { unread })
            }
            None => Sums {
                times: Stats {
                    calls,
                    total: u64::try_from(numbers.sum).unwrap_or(u64::MAX),
                    max: numbers.max,
                    histogram,
                },
                values: Values::default(),
            },
        };
        let event = Event {
            time: 0,
            cpu,
            pid,
            comm,
            probe,
            is_return: described.kind == Kind::Return,
            ip: described.address,
            duration: None,
            seen: Seen::Args(in_record(area, key.rest, faults, args)),
        };
        Some(Some((event, sums)))
    }
}

/// Numbers of a row.
struct Numbers {
    sum: u128,
    min: u64,
    max: u64,
}

impl Numbers {
    /// Returns the values of that many hits of a class. The numbers are their magnitudes.
    fn values(&self, count: u64, class: i64, has_classes: bool) -> Values {
        let sum = i128::try_from(self.sum).unwrap_or(i128::MAX);
        let (min, max) = (i128::from(self.min), i128::from(self.max));
        let (sum, min, max) = match class < 0 {
            true => (-sum, -max, -min),
            false => (sum, min, max),
        };
        Values {
            count,
            sum,
            min: Some(min),
            max: Some(max),
            unread: 0,
            classes: has_classes.then_some((class, count)).into_iter().collect(),
        }
    }
}

/// Returns arguments and calls as they are in a record.
fn in_record(mut record: Vec<u8>, calls: &[u8], faults: u32, args: &[ProbeArg]) -> Vec<u8> {
    record.resize(faults_at(args), 0);
    record.extend(faults.to_ne_bytes());
    record.resize(calls_at(args), 0);
    record.extend(calls);
    record
}

/// Reduces the arguments of a probe to the parts of a key, at their places there.
fn select(mut probe: Probe, keys: &str) -> Option<Probe> {
    let texts: Vec<_> = probe.args.iter().map(|arg| arg.text.as_str()).collect();
    let line = texts.join(" ");
    let args = Args::parse(&line, probe.kind == Kind::Return)?;
    let selected = args.selected(keys).map(|(name, arg)| {
        let text = probe.args.iter().find(|arg| arg.name == name);
        ProbeArg {
            name: name.to_owned(),
            text: text.map(|arg| arg.text.clone()).unwrap_or_default(),
            arg,
        }
    });
    probe.args = selected.collect();
    Some(probe)
}

impl Tables {
    /// Makes tables in the kernel. Returns `None` if it cannot add up these hits.
    fn new(kernel: &Kernel, options: &Options, style: &Style) -> Result<Option<Self>> {
        let by = &style.by;
        if options.probes.is_empty() || !options.tracepoints.is_empty() {
            return Ok(None);
        }
        let Some(mut command) = command(&options.probes, by, style.timed, style.value.as_ref())
        else {
            return Ok(None);
        };
        let pids = options.pids.numbers().iter().map(i32::to_string);
        let pids = pids.collect::<Vec<_>>();
        if !pids.is_empty() {
            command += &format!(" pids={}", pids.join(","));
        }
        if options.of_command {
            command += " children=1";
        }
        command.push('\n');
        let made = kernel.with_totals(&command)?;
        Ok(made.map(|(kernel, file)| Self {
            kernel,
            file,
            parts: Parts {
                pid: by.contains(&By::Pid),
                comm: by.contains(&By::Comm),
                value: style.value.as_ref().map(|value| value.has_classes),
            },
        }))
    }

    /// Reads the tables.
    fn read(&self, probes: &BTreeMap<u32, Probe>) -> Result<Totals> {
        let failed = |source| {
            Error::Io(IoError {
                action: "read",
                path: "the tables of ferrotrace_kprobe_events".into(),
                source,
            })
        };
        let mut bytes = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            let at = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            match self.file.read_at(&mut piece, at).map_err(failed)? {
                0 => break,
                count => bytes.extend(piece.get(..count).unwrap_or_default()),
            }
        }
        Totals::parse(&bytes, probes, self.parts)
            .ok_or_else(|| failed(io::Error::from(io::ErrorKind::InvalidData)))
    }
}

/// Has the kernel add up hits by the keys of `summary`, until it has no reader any more, a signal,
/// or the end of the time. `ready` is called when the probes exist, with the reasons why others, of
/// patterns, do not.
///
/// Returns the number of hits that were left out as tables were full; `None`, after doing nothing,
/// if the kernel cannot do this.
pub fn count<P: FnMut(&str) -> Result<bool>>(
    kernel: &Kernel,
    options: &Options,
    signals: &StopSignals,
    ready: impl FnOnce(&[Error]) -> Result<()>,
    summary: &mut Summary<'_, P>,
) -> Result<Option<u64>> {
    let style = summary.style();
    let keys: Vec<_> = style.by.iter().map(By::name).collect();
    let keys = keys.join(",");
    let Some(tables) = Tables::new(kernel, options, style)? else {
        return Ok(None);
    };
    // The kernel removes these probes itself if the process is killed, so no command looks for
    // them.
    let name = |process, index| format!("count.{process}.{index}");
    let temporary = Temporary::add_as(&tables.kernel, &options.probes, name, signals)?;
    let list = || -> Result<BTreeMap<u32, Probe>> {
        let all = tables.kernel.list()?.into_iter();
        let own = all.filter(|probe| temporary.names.contains(&probe.name));
        let own = own.filter_map(|probe| Some((probe.id, select(probe, &keys)?)));
        Ok(own.collect())
    };
    let probes = list()?;
    ready(&temporary.refused)?;
    let start = Instant::now();
    let end = options
        .duration
        .and_then(|duration| start.checked_add(duration));
    let interval = summary.interval();
    let mut due = start.checked_add(interval);
    let mut left_out = 0;
    loop {
        let time = Instant::now();
        let until = [end, due, time.checked_add(ROUND)].into_iter().flatten();
        let until = until.min().unwrap_or(time);
        let stopped = signals.wait(until);
        if stopped.map_err(|errno| system("wait", errno))? {
            break;
        }
        let time = Instant::now();
        if due.is_some_and(|due| time >= due) {
            due = time.checked_add(interval);
            let totals = tables.read(&probes)?;
            left_out = totals.left_out;
            summary.take(&totals.rows, &probes);
        }
        let now = Now {
            at: time.saturating_duration_since(start),
            dropped: &|| Ok(left_out),
        };
        if !summary.round(&now)? || end.is_some_and(|end| time >= end) {
            break;
        }
    }
    let at = start.elapsed();
    let missed = list()?.values().map(|probe| probe.missed).sum();
    // After this no hit is added.
    temporary.remove()?;
    let totals = tables.read(&probes)?;
    summary.take(&totals.rows, &probes);
    summary.end(at, missed);
    Ok(Some(totals.left_out))
}

#[cfg(test)]
mod tests;
