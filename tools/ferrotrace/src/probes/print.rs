// SPDX-License-Identifier: GPL-2.0

//! Probes and their hits as lines: for people, or as JSON.

#![deny(unsafe_code)]

use std::fmt;
use std::fmt::Write;

use ferro_kprobe_events_core::probe_args::Show;
use ferro_kprobe_events_core::probe_args::Type;
use nix::errno::Errno;
use serde_json::Map;
use serde_json::json;

use super::event::Args;
use super::event::Event;
use super::event::REGISTERS;
use super::event::Seen;
pub use super::event::Value;
use super::event::text as harmless;
use super::model::Kind;
use super::model::Probe;
use super::model::ProbeArg;
use super::symbols::Symbols;
use super::watch::Counts;
use crate::clock::Stamp;

/// The largest errno; a function returns it as a negative number.
pub(crate) const MAX_ERRNO: i64 = 4095;

/// A value that a function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    word: u64,
    /// True if a small negative number is the number of an error. Functions in user space have
    /// other conventions.
    has_errors: bool,
}

impl Returned {
    /// Takes the value of a register at the return.
    pub fn of(probe: &Probe, word: u64) -> Self {
        Self {
            word,
            has_errors: probe.place.in_file().is_none(),
        }
    }

    /// As a number. A function that returns an `int` does not set the upper half of the register,
    /// which is usually 0: if the lower half is an error then, it is taken for one.
    pub fn number(self) -> i64 {
        let whole = i64::from_ne_bytes(self.word.to_ne_bytes());
        match u32::try_from(self.word).map(|low| i64::from(i32::from_ne_bytes(low.to_ne_bytes()))) {
            Ok(int) if (-MAX_ERRNO..0).contains(&int) => int,
            _ => whole,
        }
    }

    /// The name of the error, if it is one.
    pub fn errno(self) -> Option<String> {
        errno_name(self.number()).filter(|_| self.has_errors)
    }
}

/// Returns the name of the error that a function of the kernel returns as this number, if it is
/// one.
pub(crate) fn errno_name(number: i64) -> Option<String> {
    if !(-MAX_ERRNO..0).contains(&number) {
        return None;
    }
    let errno = Errno::from_raw(i32::try_from(-number).ok()?);
    (errno != Errno::UnknownErrno).then(|| format!("{errno:?}"))
}

/// Returns true if a negative value of an argument is the number of an error: of what a function of
/// the kernel has returned, or of an argument whose name says so.
fn is_error(arg: &ProbeArg, in_file: bool) -> bool {
    let name = arg.name.as_str();
    let is_named = ["err", "errno", "error"].iter().any(|end| {
        name.strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    });
    let fetch = arg.text.split_once('=').map_or("", |(_, fetch)| fetch);
    let returned = fetch.split(':').next() == Some("$retval");
    is_named || !in_file && (returned || ["rc", "ret", "retval"].contains(&name))
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number();
        match self.errno() {
            Some(errno) => write!(f, "{number} ({errno})"),
            None if (-MAX_ERRNO..10).contains(&number) => write!(f, "{number}"),
            // Neither an address nor a number beyond the range of an `int`.
            None if (0..=i64::from(u32::MAX)).contains(&number) => {
                write!(f, "{number} ({number:#x})")
            }
            None => write!(f, "{:#x}", self.word),
        }
    }
}

/// How hits are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// One JSON object on each line.
    pub json: bool,
    /// With the registers.
    pub registers: bool,
    /// With dates and times of day: from the epoch to the zero of the clock of the records, in ns.
    pub wall: Option<u64>,
    /// One word for hits that are missing, `lost`, with the place.
    pub lost: bool,
}

impl Style {
    fn stamp(self, event: &Event) -> Stamp {
        Stamp {
            time: event.time,
            wall: self.wall,
        }
    }
}

impl Value {
    /// The value of an argument, the `index`th of its probe, in the record of a hit.
    pub fn new(arg: &ProbeArg, index: usize, args: Args<'_>, in_file: bool) -> Self {
        let ty = arg.arg.ty;
        let Args { area, faults, .. } = args;
        let bytes = area.get(arg.arg.offset..arg.arg.end()).unwrap_or_default();
        let bit = u32::try_from(index)
            .ok()
            .and_then(|index| 1_u32.checked_shl(index));
        let failed = bytes.is_empty() || faults & bit.unwrap_or(0) != 0;
        match ty {
            Type::Stack { user } => return Self::Calls(args.calls(user).collect()),
            Type::Text { .. } if failed => return Self::Fault(harmless(bytes)),
            Type::Text { .. } => return Self::Text(harmless(bytes)),
            _ if failed => return Self::Fault(String::new()),
            Type::Bits { .. } | Type::Number { .. } => (),
        }
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self::of_word(arg, u64::from_le_bytes(word), in_file)
    }

    /// The value of an argument that is a number, from a word that begins with its bytes.
    pub(crate) fn of_word(arg: &ProbeArg, word: u64, in_file: bool) -> Self {
        let number = arg.arg.ty.of_record(word);
        let show = match arg.arg.ty {
            Type::Number { show, .. } => show,
            _ => Show::Unsigned,
        };
        match show {
            Show::Unsigned => Self::Unsigned(number),
            Show::Signed => {
                let number = i64::from_ne_bytes(number.to_ne_bytes());
                match is_error(arg, in_file) {
                    true => Self::Error(number),
                    false => Self::Signed(number),
                }
            }
            Show::Hex => Self::Hex(number),
            Show::Symbol => Self::Symbol(number),
        }
    }

    /// As text; a stack as the names of its functions, the outermost first, as flame graphs have
    /// them.
    pub fn text(&self, pid: i32, symbols: &Symbols) -> String {
        match self {
            Self::Calls(calls) => {
                let names = calls.iter().rev().map(|call| symbols.function(*call, pid));
                names.collect::<Vec<_>>().join(";")
            }
            Self::Fault(start) if start.is_empty() => "(fault)".to_owned(),
            Self::Fault(start) => format!("{start:?}(fault)"),
            Self::Unsigned(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            Self::Error(number) => match errno_name(*number) {
                Some(errno) => format!("{number} ({errno})"),
                None => number.to_string(),
            },
            Self::Hex(number) => format!("{number:#x}"),
            Self::Symbol(address) => symbols.describe(*address),
            Self::Text(text) => format!("{text:?}"),
            Self::Names(text) => text.clone(),
        }
    }

    /// As text, for a part of a key. The word that a function has returned is shown as such.
    pub(crate) fn text_in_key(
        &self,
        name: &str,
        probe: &Probe,
        pid: i32,
        symbols: &Symbols,
    ) -> String {
        match (self, name) {
            (Self::Hex(word), "ret") if probe.kind == Kind::Return => {
                Returned::of(probe, *word).to_string()
            }
            (Self::Hex(word), "errno") if probe.kind == Kind::Return => {
                let errno = Returned::of(probe, *word).errno();
                errno.unwrap_or_else(|| "-".to_owned())
            }
            _ => self.text(pid, symbols),
        }
    }

    fn json(&self, pid: i32, symbols: &Symbols) -> serde_json::Value {
        match self {
            Self::Calls(calls) => {
                let names = calls.iter().map(|call| symbols.call(*call, pid));
                names.collect()
            }
            Self::Fault(_) => serde_json::Value::Null,
            Self::Unsigned(number) => (*number).into(),
            Self::Signed(number) | Self::Error(number) => (*number).into(),
            // Numbers in JSON are decimal.
            Self::Hex(_) | Self::Symbol(_) => self.text(pid, symbols).into(),
            Self::Text(text) | Self::Names(text) => text.clone().into(),
        }
    }
}

/// The arguments of a hit of `probe`, with their names.
pub fn values<'a>(
    event: &'a Event,
    probe: &'a Probe,
) -> impl Iterator<Item = (&'a str, Value)> + 'a {
    let (seen, fields) = match &event.seen {
        Seen::Args(bytes) => (Some(Args::of(bytes, &probe.args)), None),
        Seen::Fields(seen) => (None, Some(seen.values.iter())),
        Seen::Registers(_) => (None, None),
    };
    let fields = fields.into_iter().flatten();
    let fields = fields.map(|(name, value)| (&**name, value.clone()));
    let args = probe.args.iter().enumerate();
    let in_file = probe.place.in_file().is_some();
    let args = args.filter_map(move |(index, arg)| {
        Some((arg.name.as_str(), Value::new(arg, index, seen?, in_file)))
    });
    args.chain(fields)
}

/// A line, or with registers several, for a hit of `probe`.
pub fn event(event: &Event, probe: &Probe, symbols: &Symbols, style: Style) -> String {
    if style.json {
        return format!("{}\n", event_json(event, probe, symbols, style));
    }
    let (cpu, time) = (event.cpu, style.stamp(event));
    let (comm, pid, place) = (&event.comm, event.pid, probe.place.shown());
    let mut text = format!("[{cpu:03}] {time} {comm}-{pid} {place}");
    // Writing to a string does not fail.
    if event.is_return {
        let value = match event.value() {
            Some(value) => format!(" = {}", Returned::of(probe, value)),
            None => " returns".to_owned(),
        };
        let time = match event.duration {
            Some(ns) => format!("{}.{:03} us", ns / 1000, ns % 1000),
            None => "entry not seen".to_owned(),
        };
        let _ = write!(text, "{value}, {time}");
        if probe.kind != Kind::Tracepoint {
            let _ = write!(text, ", to {}", symbols.call(event.ip, event.pid));
        }
    }
    let mut stacks = Vec::new();
    for (name, value) in values(event, probe) {
        match value {
            Value::Calls(calls) => stacks.push(calls),
            value => {
                let _ = write!(text, " {name}={}", value.text(event.pid, symbols));
            }
        }
    }
    text.push('\n');
    for call in stacks.iter().flatten() {
        let _ = writeln!(text, "        {}", symbols.call(*call, event.pid));
    }
    if let (true, Seen::Registers(registers)) = (style.registers, &event.seen) {
        let pairs: Vec<_> = REGISTERS.iter().zip(registers).collect();
        for row in pairs.chunks(6) {
            let row: Vec<_> = row
                .iter()
                .map(|(name, value)| format!("{name:>5} {value:016x}"))
                .collect();
            text.push_str(&row.join(" "));
            text.push('\n');
        }
    }
    text
}

fn event_json(event: &Event, probe: &Probe, symbols: &Symbols, style: Style) -> serde_json::Value {
    let mut object = json!({
        "time": event.time,
        "cpu": event.cpu,
        "comm": event.comm,
        "pid": event.pid,
        "probe": probe.name,
        "kind": probe.kind,
        "place": probe.place,
    });
    let Some(map) = object.as_object_mut() else {
        return object;
    };
    if probe.kind != Kind::Tracepoint {
        map.insert("ip".to_owned(), format!("{:#x}", event.ip).into());
    }
    if style.wall.is_some() {
        map.insert("wall".to_owned(), style.stamp(event).to_string().into());
    }
    if event.is_return {
        if let Some(value) = event.value().map(|word| Returned::of(probe, word)) {
            map.insert("value".to_owned(), value.number().into());
            map.insert("errno".to_owned(), value.errno().into());
        }
        map.insert("duration_ns".to_owned(), event.duration.into());
        if probe.kind != Kind::Tracepoint {
            let to = symbols.call(event.ip, event.pid);
            map.insert("to".to_owned(), to.into());
        }
    }
    if !probe.args.is_empty() || matches!(event.seen, Seen::Fields(_)) {
        let args = values(event, probe);
        let args: Map<_, _> = args
            .map(|(name, value)| (name.to_owned(), value.json(event.pid, symbols)))
            .collect();
        map.insert("args".to_owned(), args.into());
    }
    if let (true, Seen::Registers(registers)) = (style.registers, &event.seen) {
        let registers = REGISTERS.iter().zip(registers);
        let registers: Map<_, _> = registers
            .map(|(name, value)| (name.to_string(), format!("{value:#x}").into()))
            .collect();
        map.insert("registers".to_owned(), registers.into());
    }
    object
}

/// The probes as a table.
pub fn table(probes: &[Probe]) -> String {
    if probes.is_empty() {
        return "no probes\n".to_owned();
    }
    let heads = ["name", "kind", "place", "hits", "missed", "state", "reads"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(probes.iter().map(|probe| {
        [
            probe.name.clone(),
            probe.kind.word().to_owned(),
            probe.place.shown().to_string(),
            probe.hits.to_string(),
            probe.missed.to_string(),
            if probe.gone { "gone" } else { "on" }.to_owned(),
            reads(probe),
        ]
    }));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let [name, kind, place, hits, missed, state, _] = widths;
    let line = |[a, b, c, d, e, f, g]: &[String; 7]| {
        let line =
            format!("{a:name$}  {b:kind$}  {c:place$}  {d:>hits$}  {e:>missed$}  {f:state$}  {g}");
        format!("{}\n", line.trim_end())
    };
    if probes.iter().all(|probe| reads(probe).is_empty()) {
        for row in &mut rows {
            let [.., last] = row;
            last.clear();
        }
    }
    rows.iter().map(line).collect()
}

/// Returns a probe's arguments and conditions as text.
fn reads(probe: &Probe) -> String {
    let mut words: Vec<&str> = probe.args.iter().map(|arg| arg.text.as_str()).collect();
    if !probe.conditions.is_empty() {
        words.push("if");
    }
    words.extend(probe.conditions.iter().map(String::as_str));
    words.join(" ")
}

/// Returns the number of lost hits, and where they were lost.
pub fn lost(counts: &Counts) -> String {
    let (kernel, overwritten) = (counts.lost_in_kernel(), counts.overwritten);
    match (kernel, overwritten) {
        (0, 0) => "0 lost".to_owned(),
        (_, 0) => format!("{kernel} lost (in the kernel)"),
        (0, _) => format!("{overwritten} lost (overwritten)"),
        _ => format!(
            "{} lost ({kernel} in the kernel, {overwritten} overwritten)",
            kernel.saturating_add(overwritten)
        ),
    }
}

/// The summary at the end, with one word for what is missing.
fn counts_with_lost(counts: &Counts, style: Style) -> String {
    if style.json {
        let probes = counts.probes.iter().map(|probe| {
            json!({"name": probe.name, "events": probe.events, "lost": {"in_kernel": probe.missed}})
        });
        let summary = json!({
            "probes": probes.collect::<Vec<_>>(),
            "events": counts.events,
            "lost": {"in_kernel": counts.lost_in_kernel(), "overwritten": counts.overwritten},
            "late": counts.late,
        });
        return format!("{}\n", json!({ "summary": summary }));
    }
    let mut text = String::new();
    for probe in &counts.probes {
        let (name, events) = (&probe.name, probe.events);
        let lost = match probe.missed {
            0 => String::new(),
            missed => format!(", {missed} lost (in the kernel)"),
        };
        let _ = writeln!(text, "{name}: {events} hits{lost}");
    }
    let _ = writeln!(text, "{} hits, {}", counts.events, lost(counts));
    if counts.late != 0 {
        let _ = writeln!(text, "{} hits stand too late", counts.late);
    }
    text
}

/// The summary at the end.
pub fn counts(counts: &Counts, style: Style) -> String {
    if style.lost {
        return counts_with_lost(counts, style);
    }
    if style.json {
        return format!("{}\n", json!({ "summary": counts }));
    }
    let mut text = String::new();
    for probe in &counts.probes {
        let (name, events, missed) = (&probe.name, probe.events, probe.missed);
        let _ = writeln!(text, "{name}: {events} events, {missed} missed");
    }
    let _ = writeln!(text, "{} events, {} dropped", counts.events, counts.dropped);
    if counts.late != 0 {
        let _ = writeln!(text, "{} events stand too late", counts.late);
    }
    text
}

#[cfg(test)]
mod tests;
