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
use super::event::text as harmless;
use super::model::Probe;
use super::model::ProbeArg;
use super::symbols::Symbols;
use super::watch::Counts;
use crate::clock::Stamp;

/// The largest errno; a function returns it as a negative number.
const MAX_ERRNO: i64 = 4095;

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
fn errno_name(number: i64) -> Option<String> {
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
}

impl Style {
    fn stamp(self, event: &Event) -> Stamp {
        Stamp {
            time: event.time,
            wall: self.wall,
        }
    }
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// It could not be read; this much of a text could be.
    Fault(String),
    /// A number without a sign.
    Unsigned(u64),
    /// A number with one.
    Signed(i64),
    /// The same, which is that of an error if it is negative.
    Error(i64),
    /// A number that is shown in hexadecimal.
    Hex(u64),
    /// The address of a function.
    Symbol(u64),
    /// Text.
    Text(String),
    /// Calls, the innermost first.
    Calls(Vec<u64>),
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
        let show = match ty {
            Type::Stack { user } => return Self::Calls(args.calls(user).collect()),
            Type::Text { .. } if failed => return Self::Fault(harmless(bytes)),
            Type::Text { .. } => return Self::Text(harmless(bytes)),
            _ if failed => return Self::Fault(String::new()),
            Type::Bits { .. } => Show::Unsigned,
            Type::Number { show, .. } => show,
        };
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        let number = ty.of_word(u64::from_le_bytes(word));
        // The bits were taken out by the kernel.
        let number = match ty {
            Type::Bits { .. } => u64::from_le_bytes(word),
            _ => number,
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

    /// As text; a stack as the names of its functions, the outermost first, as flame graphs have them.
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
            Self::Text(text) => text.clone().into(),
        }
    }
}

/// The arguments of a hit of `probe`, with their names.
pub fn values<'a>(
    event: &'a Event,
    probe: &'a Probe,
) -> impl Iterator<Item = (&'a str, Value)> + 'a {
    let seen = match &event.seen {
        Seen::Args(bytes) => Some(Args::of(bytes, &probe.args)),
        Seen::Registers(_) => None,
    };
    let args = probe.args.iter().enumerate();
    let in_file = probe.place.in_file().is_some();
    args.filter_map(move |(index, arg)| {
        Some((arg.name.as_str(), Value::new(arg, index, seen?, in_file)))
    })
}

/// A line, or with registers several, for a hit of `probe`.
pub fn event(event: &Event, probe: &Probe, symbols: &Symbols, style: Style) -> String {
    if style.json {
        return format!("{}\n", event_json(event, probe, symbols, style));
    }
    let (cpu, time) = (event.cpu, style.stamp(event));
    let (comm, pid, place) = (&event.comm, event.pid, &probe.place);
    let mut text = format!("[{cpu:03}] {time} {comm}-{pid} {place}");
    // Writing to a string does not fail.
    if event.is_return {
        let to = symbols.call(event.ip, event.pid);
        let value = match event.value() {
            Some(value) => format!(" = {}", Returned::of(probe, value)),
            None => " returns".to_owned(),
        };
        let time = match event.duration {
            Some(ns) => format!("{}.{:03} us", ns / 1000, ns % 1000),
            None => "entry not seen".to_owned(),
        };
        let _ = write!(text, "{value}, {time}, to {to}");
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
        "ip": format!("{:#x}", event.ip),
    });
    let Some(map) = object.as_object_mut() else {
        return object;
    };
    if style.wall.is_some() {
        map.insert("wall".to_owned(), style.stamp(event).to_string().into());
    }
    if event.is_return {
        if let Some(value) = event.value().map(|word| Returned::of(probe, word)) {
            map.insert("value".to_owned(), value.number().into());
            map.insert("errno".to_owned(), value.errno().into());
        }
        map.insert("duration_ns".to_owned(), event.duration.into());
        let to = symbols.call(event.ip, event.pid);
        map.insert("to".to_owned(), to.into());
    }
    if !probe.args.is_empty() {
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
            probe.place.to_string(),
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

/// The summary at the end.
pub fn counts(counts: &Counts, style: Style) -> String {
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
mod tests {
    use super::super::event::tests::event as sample;
    use super::super::model::parse_list;
    use super::super::model::tests::LIST;
    use super::*;

    const MINUS_TWO: u64 = u64::MAX - 1;

    fn returning(hit: &mut Event) {
        if let Seen::Registers([ax, ..]) = &mut hit.seen {
            *ax = MINUS_TWO;
        }
    }

    /// `-10`, `/etc`, and the rest of an area of 16 bytes.
    fn with_args() -> (Event, Probe) {
        let line = "id=9 name=o kind=return place=f address=0x1 hits=0 missed=0 state=on \
                    args=n=$retval:s32,s=+0($arg2):string5,x=%di:x8,b=%di:b2@1/8,y=%si:symbol if=n<0\n";
        let probe = parse_list(line).unwrap().remove(0);
        let mut hit = sample(12);
        hit.is_return = true;
        hit.duration = Some(5);
        let mut area = (-10i32).to_le_bytes().to_vec();
        area.extend(b"/e\x07c\0\xab\x02\0\0\0\0\0");
        area.extend(5u64.to_le_bytes());
        area.extend([0; 4]);
        hit.seen = Seen::Args(area);
        (hit, probe)
    }

    #[test]
    fn arguments() {
        let (mut hit, probe) = with_args();
        let symbols = Symbols::default();
        let style = Style::default();
        assert_eq!(
            event(&hit, &probe, &symbols, style),
            "[001] 0.000000012 cat-42 f returns, 0.005 us, to 0xffffffff81063c90 n=-10 (ECHILD) s=\"/e?c\" x=0xab b=2 y=0x5\n"
        );
        let style = Style {
            json: true,
            registers: true,
            wall: Some(1_000_000_000),
        };
        let line = event(&hit, &probe, &symbols, style);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["wall"], "1970-01-01T00:00:01.000000012Z");
        assert_eq!(
            value["args"],
            json!({"n": -10, "s": "/e?c", "x": "0xab", "b": 2, "y": "0x5"})
        );
        assert!(value.get("registers").is_none() && value.get("value").is_none());
        if let Seen::Args(bytes) = &mut hit.seen {
            bytes[24] = 0b111;
        }
        let text = event(&hit, &probe, &symbols, Style::default());
        assert!(
            text.ends_with(" n=(fault) s=\"/e?c\"(fault) x=(fault) b=2 y=0x5\n"),
            "{text}"
        );
        let table = table(&[probe]);
        assert!(table.contains("  state  reads\n"), "{table}");
        assert!(table.ends_with("  on     n=$retval:s32 s=+0($arg2):string5 x=%di:x8 b=%di:b2@1/8 y=%si:symbol if n<0\n"), "{table}");
    }

    #[test]
    fn stacks() {
        let line = "id=9 name=o kind=probe place=f address=0x1 hits=0 missed=0 state=on \
                    args=stack=$kstack,n=%di:u8,ustack=$ustack\n";
        let probe = parse_list(line).unwrap().remove(0);
        let mut hit = sample(12_000_000_034);
        // No process has this number.
        hit.pid = i32::MAX;
        let mut bytes = vec![7, 0, 0, 0, 0, 0, 0, 0];
        for call in [0xffff_ffff_8100_0204_u64, 0xffff_ffff_8100_0108, 0x1234] {
            bytes.extend(call.to_ne_bytes());
        }
        hit.seen = Seen::Args(bytes);
        let symbols = Symbols::parse("ffffffff81000100 T a\nffffffff81000200 T b\n");
        let style = Style {
            wall: Some(1_000_000_000),
            ..Style::default()
        };
        assert_eq!(
            event(&hit, &probe, &symbols, style),
            "[001] 1970-01-01T00:00:13.000000034Z cat-2147483647 f n=7\n        b+0x4\n        a+0x8\n        0x1234\n"
        );
        let folded: Vec<_> = super::values(&hit, &probe)
            .map(|(_, value)| value.text(hit.pid, &symbols))
            .collect();
        assert_eq!(folded, ["a;b", "7", "0x1234"]);
        let style = Style {
            json: true,
            ..Style::default()
        };
        let line = event(&hit, &probe, &symbols, style);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            value["args"],
            json!({"stack": ["b+0x4", "a+0x8"], "n": 7, "ustack": ["0x1234"]})
        );
    }

    #[test]
    fn values() {
        let probes = parse_list(LIST).unwrap();
        let text = |value: u64| Returned::of(&probes[1], value).to_string();
        assert_eq!(text(0), "0");
        assert_eq!(text(9), "9");
        assert_eq!(text(35), "35 (0x23)");
        assert_eq!(text(MINUS_TWO), "-2 (ENOENT)");
        assert_eq!(text(0xffff_fffe), "-2 (ENOENT)");
        assert_eq!(text(u64::MAX - 4094), "-4095");
        assert_eq!(text(u64::MAX - 4095), "0xfffffffffffff000");
        assert_eq!(text(0xffff_8880_1234_5678), "0xffff888012345678");
        assert_eq!(text(0x1_0000_0000), "0x100000000");
        assert_eq!(Returned::of(&probes[1], 0xffff_fffe).number(), -2);
        // A function of a program means something else by it.
        let mut of_file = probes[1].clone();
        of_file.place = "/bin/prog:f".parse().unwrap();
        assert_eq!(Returned::of(&of_file, 0xffff_ffff).to_string(), "-1");
        assert_eq!(Returned::of(&of_file, u64::MAX).errno(), None);
    }

    /// A small negative number is an error only where something says so.
    #[test]
    fn errors_and_numbers() {
        let text = |args: &str, place: &str| {
            let line = format!(
                "id=9 name=o kind=return place={place} address=0x1 hits=0 missed=0 state=on args={args}\n"
            );
            let probe = parse_list(&line).unwrap().remove(0);
            let mut hit = sample(12);
            let mut area = (-2i32).to_le_bytes().to_vec();
            area.extend([0; 4]);
            hit.seen = Seen::Args(area);
            let (_, value) = super::values(&hit, &probe).next().unwrap();
            value.text(1, &Symbols::default())
        };
        for args in [
            "x=$retval:s32",
            "ret=%di:s32",
            "io_error=%di:s32",
            "err=%di:s32",
        ] {
            assert_eq!(text(args, "f"), "-2 (ENOENT)", "{args}");
        }
        for args in ["x=%di:s32", "offset=%di:s32", "terror=%di:s32"] {
            assert_eq!(text(args, "f"), "-2", "{args}");
        }
        assert_eq!(text("ret=$retval:s32", "/bin/prog:f"), "-2");
        assert_eq!(text("errno=%di:s32", "/bin/prog:f"), "-2 (ENOENT)");
    }

    #[test]
    fn lines() {
        let probes = parse_list(LIST).unwrap();
        let symbols = Symbols::default();
        let mut hit = sample(12_000_000_034);
        let style = Style::default();
        assert_eq!(
            event(&hit, &probes[0], &symbols, style),
            "[001] 12.000000034 cat-42 kernel_clone\n"
        );
        let registers = Style {
            registers: true,
            ..Style::default()
        };
        let text = event(&hit, &probes[2], &symbols, registers);
        assert!(text.starts_with("[001] 12.000000034 cat-42 kernel_clone+0x10\n   ax 00000000000000a0    bx 00000000000000a1 "));
        assert!(text.ends_with("flags 00000000000000b0\n"));
        hit.is_return = true;
        hit.duration = Some(12_345);
        returning(&mut hit);
        hit.ip = 5;
        assert_eq!(
            event(&hit, &probes[1], &symbols, style),
            "[001] 12.000000034 cat-42 do_sys_openat2 = -2 (ENOENT), 12.345 us, to 0x5\n"
        );
    }

    #[test]
    fn json() {
        let probes = parse_list(LIST).unwrap();
        let mut hit = sample(12);
        hit.is_return = true;
        returning(&mut hit);
        let style = Style {
            json: true,
            registers: true,
            wall: None,
        };
        let line = event(&hit, &probes[1], &Symbols::default(), style);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["value"], -2);
        assert_eq!(value["errno"], "ENOENT");
        assert_eq!(value["kind"], "return");
        assert_eq!(value["probe"], "open.ret");
        assert_eq!(value["registers"]["bx"], "0xa1");
        let list = serde_json::to_value(&probes).unwrap();
        assert_eq!(list[0]["address"], "0xffffffff81063c90");
        assert_eq!(list[2]["place"], "kernel_clone+0x10");
    }

    #[test]
    fn tables() {
        assert_eq!(table(&[]), "no probes\n");
        let probes = parse_list(LIST).unwrap();
        assert_eq!(
            table(&probes),
            "\
name      kind    place              hits  missed  state
forks     probe   kernel_clone         12       0  on
open.ret  return  do_sys_openat2        3       1  gone
a         probe   kernel_clone+0x10     0       0  on
"
        );
    }
}
