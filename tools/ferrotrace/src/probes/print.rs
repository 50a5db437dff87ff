// SPDX-License-Identifier: GPL-2.0

//! Probes and their hits as lines: for people, or as JSON.

#![deny(unsafe_code)]

use std::fmt;
use std::fmt::Write;

use nix::errno::Errno;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::event::Event;
use super::event::REGISTERS;
use super::model::Probe;
use super::symbols::Symbols;
use super::watch::Counts;
use crate::merge::lines::Seconds;

/// The largest errno; a function returns it as a negative number.
const MAX_ERRNO: i64 = 4095;

/// What a function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned(pub u64);

impl Returned {
    /// As a number. A function that returns an `int` does not set the upper half of the register,
    /// which is usually 0: if the lower half is an error then, it is taken for one.
    pub fn number(self) -> i64 {
        let whole = i64::from_ne_bytes(self.0.to_ne_bytes());
        match u32::try_from(self.0).map(|low| i64::from(i32::from_ne_bytes(low.to_ne_bytes()))) {
            Ok(int) if (-MAX_ERRNO..0).contains(&int) => int,
            _ => whole,
        }
    }

    /// The name of the error, if it is one.
    pub fn errno(self) -> Option<String> {
        let number = self.number();
        if !(-MAX_ERRNO..0).contains(&number) {
            return None;
        }
        let errno = Errno::from_raw(i32::try_from(-number).ok()?);
        (errno != Errno::UnknownErrno).then(|| format!("{errno:?}"))
    }
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
            None => write!(f, "{:#x}", self.0),
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
}

/// A line, or with registers several, for a hit of `probe`.
pub fn event(event: &Event, probe: &Probe, symbols: &Symbols, style: Style) -> String {
    if style.json {
        return format!("{}\n", event_json(event, probe, symbols, style));
    }
    let (cpu, time) = (event.cpu, Seconds(event.time));
    let (comm, pid, place) = (&event.comm, event.pid, &probe.place);
    let mut text = format!("[{cpu:03}] {time} {comm}-{pid} {place}");
    if event.is_return {
        let micros = event.duration / 1000;
        let nanos = event.duration % 1000;
        let value = Returned(event.value());
        let to = symbols.describe(event.ip);
        // Writing to a string does not fail.
        let _ = write!(text, " = {value}, {micros}.{nanos:03} us, to {to}");
    }
    text.push('\n');
    if style.registers {
        let pairs: Vec<_> = REGISTERS.iter().zip(event.registers).collect();
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

fn event_json(event: &Event, probe: &Probe, symbols: &Symbols, style: Style) -> Value {
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
    if event.is_return {
        let value = Returned(event.value());
        map.insert("value".to_owned(), value.number().into());
        map.insert("errno".to_owned(), value.errno().into());
        map.insert("duration_ns".to_owned(), event.duration.into());
        map.insert("to".to_owned(), symbols.describe(event.ip).into());
    }
    if style.registers {
        let registers = REGISTERS.iter().zip(event.registers);
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
    let mut rows = vec![["name", "kind", "place", "hits", "missed", "state"].map(str::to_owned)];
    rows.extend(probes.iter().map(|probe| {
        [
            probe.name.clone(),
            probe.kind.word().to_owned(),
            probe.place.to_string(),
            probe.hits.to_string(),
            probe.missed.to_string(),
            if probe.gone { "gone" } else { "on" }.to_owned(),
        ]
    }));
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let [name, kind, place, hits, missed, _] = widths;
    let line = |[a, b, c, d, e, f]: &[String; 6]| {
        format!("{a:name$}  {b:kind$}  {c:place$}  {d:>hits$}  {e:>missed$}  {f}\n")
    };
    rows.iter().map(line).collect()
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

    #[test]
    fn values() {
        let text = |value: u64| Returned(value).to_string();
        assert_eq!(text(0), "0");
        assert_eq!(text(9), "9");
        assert_eq!(text(35), "35 (0x23)");
        assert_eq!(text(MINUS_TWO), "-2 (ENOENT)");
        assert_eq!(text(0xffff_fffe), "-2 (ENOENT)");
        assert_eq!(text(u64::MAX - 4094), "-4095");
        assert_eq!(text(u64::MAX - 4095), "0xfffffffffffff000");
        assert_eq!(text(0xffff_8880_1234_5678), "0xffff888012345678");
        assert_eq!(text(0x1_0000_0000), "0x100000000");
        assert_eq!(Returned(0xffff_fffe).number(), -2);
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
            json: false,
        };
        let text = event(&hit, &probes[2], &symbols, registers);
        assert!(text.starts_with("[001] 12.000000034 cat-42 kernel_clone+0x10\n   ax 00000000000000a0    bx 00000000000000a1 "));
        assert!(text.ends_with("flags 00000000000000b0\n"));
        hit.is_return = true;
        hit.duration = 12_345;
        hit.registers[0] = MINUS_TWO;
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
        hit.registers[0] = MINUS_TWO;
        let style = Style {
            json: true,
            registers: true,
        };
        let line = event(&hit, &probes[1], &Symbols::default(), style);
        let value: Value = serde_json::from_str(&line).unwrap();
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
