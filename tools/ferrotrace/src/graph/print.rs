// SPDX-License-Identifier: GPL-2.0

//! Trees as text and as JSON.

#![deny(unsafe_code)]

use std::fmt::Write;

use serde::Serialize;

use super::names::Names;
use super::tree::Call;
use super::tree::End;
use super::tree::Entry;
use super::value::error_name;
use crate::functions::print::Time;
use crate::text::printable;

/// Spaces of a level.
const INDENT: usize = 2;

/// Writes the trees of threads.
#[derive(Debug, Default)]
pub struct Printer {
    /// True for one JSON object on each line.
    json: bool,
    /// Thread of the last tree, and its name.
    last: Option<(i32, String)>,
}

/// A call as JSON.
#[derive(Serialize)]
struct JsonCall<'a> {
    time_ns: u64,
    duration_ns: Option<u64>,
    pid: i32,
    comm: &'a str,
    cpu: u32,
    depth: usize,
    function: &'a str,
    module: Option<&'a str>,
    returned: Option<i64>,
    errno: Option<String>,
    interrupt: bool,
    end: &'static str,
    entry_lost: bool,
    gap: bool,
    folded: u64,
    folded_ns: u64,
}

impl Printer {
    /// Makes a printer.
    pub fn new(json: bool) -> Self {
        Self { json, last: None }
    }

    /// Returns the text of a tree.
    pub fn tree(&mut self, entry: &Entry, call: &Call, names: &Names) -> String {
        let mut text = String::new();
        if self.json {
            json(entry, call, names, 0, &mut text);
            return text;
        }
        let thread = (entry.pid, entry.comm.clone());
        if self.last.as_ref() != Some(&thread) {
            let gap = if self.last.is_some() { "\n" } else { "" };
            // Writing to a string does not fail.
            let comm = printable(&entry.comm);
            let _ = writeln!(text, "{gap}{comm} {}:", entry.pid);
            self.last = Some(thread);
        }
        lines(call, names, 0, false, &mut text);
        text
    }
}

fn lines(call: &Call, names: &Names, level: usize, in_irq: bool, text: &mut String) {
    let name = names.get(call.func);
    let time = call
        .duration
        .map_or("?".to_owned(), |ns| Time(ns).to_string());
    let indent = level * INDENT;
    let _ = write!(text, "{time:>11}  {:indent$}{}", "", name.text());
    let value = call.value;
    if let Some(value) = value.and_then(|value| names.returns(call.func).text(value)) {
        let _ = write!(text, " = {value}");
    }
    for note in notes(call, in_irq) {
        let _ = write!(text, "  <{note}>");
    }
    text.push('\n');
    for inner in &call.children {
        lines(inner, names, level + 1, call.in_irq, text);
    }
    if call.folded != 0 {
        let (time, calls) = (Time(call.folded_ns).to_string(), call.folded);
        let plural = if calls == 1 { "" } else { "s" };
        let indent = indent + INDENT;
        let _ = writeln!(
            text,
            "{time:>11}  {:indent$}({calls} shorter call{plural})",
            ""
        );
    }
}

/// Returns the remarks about a call.
fn notes(call: &Call, in_irq: bool) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if call.in_irq && !in_irq {
        notes.push("interrupt");
    }
    if call.entry_lost {
        notes.push("entry lost");
    }
    match call.end {
        End::Lost => notes.push("return lost"),
        End::Open => notes.push("not returned"),
        End::Returned if call.has_gap && !call.entry_lost => notes.push("calls lost"),
        End::Returned => (),
    }
    notes
}

fn json(entry: &Entry, call: &Call, names: &Names, depth: usize, text: &mut String) {
    let name = names.get(call.func);
    let value = call.value.map(|value| (names.returns(call.func), value));
    let line = serde_json::to_string(&JsonCall {
        time_ns: call.begin,
        duration_ns: call.duration,
        pid: entry.pid,
        comm: &entry.comm,
        cpu: entry.cpu,
        depth,
        function: &name.name,
        module: name.module.as_deref(),
        returned: value.and_then(|(returns, value)| returns.number(value)),
        errno: value.and_then(|(returns, value)| returns.error(value).map(error_name)),
        interrupt: call.in_irq,
        end: match call.end {
            End::Returned => "returned",
            End::Lost => "lost",
            End::Open => "open",
        },
        entry_lost: call.entry_lost,
        gap: call.has_gap,
        folded: call.folded,
        folded_ns: call.folded_ns,
    });
    // Numbers and strings are always JSON.
    text.push_str(&line.unwrap_or_default());
    text.push('\n');
    for inner in &call.children {
        json(entry, inner, names, depth + 1, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tree::Item;

    const NAMES: &str = "\
1 do_sys_openat2
2 path_openat
3 ovl_lookup [overlay]
4 sysvec_apic_timer_interrupt
";

    fn call(func: u64, begin: u64, duration: Option<u64>, children: Vec<Call>) -> Call {
        Call {
            func,
            begin,
            duration,
            end: match duration {
                Some(_) => End::Returned,
                None => End::Lost,
            },
            children,
            ..Call::default()
        }
    }

    fn tree() -> Call {
        let interrupt = Call {
            in_irq: true,
            ..call(4, 1_300, Some(2_000), vec![])
        };
        let lookup = call(3, 1_200, None, vec![interrupt]);
        let path = Call {
            value: Some(u64::MAX - 1),
            has_gap: true,
            folded: 2,
            folded_ns: 150,
            ..call(2, 1_100, Some(12_345), vec![lookup])
        };
        Call {
            value: Some(0xffff_fffe),
            ..call(1, 1_000, Some(1_234_567), vec![path])
        }
    }

    fn entry(comm: &str, pid: i32) -> Entry {
        Entry {
            pid,
            comm: comm.to_owned(),
            cpu: 1,
            time: 0,
            item: Item::Call(Call::default()),
        }
    }

    #[test]
    fn text() {
        let names = Names::of(NAMES);
        let mut printer = Printer::new(false);
        let first = printer.tree(&entry("cat", 7), &tree(), &names);
        assert_eq!(
            first,
            "cat 7:\n   \
               1.234 ms  do_sys_openat2 = -2 (ENOENT)\n  \
               12.345 us    path_openat = -2 (ENOENT)  <calls lost>\n          \
                       ?      ovl_lookup [overlay]  <return lost>\n   \
               2.000 us        sysvec_apic_timer_interrupt  <interrupt>\n     \
                 150 ns      (2 shorter calls)\n"
        );
        let again = printer.tree(&entry("cat", 7), &call(2, 5, Some(1), vec![]), &names);
        assert_eq!(again, "       1 ns  path_openat\n");
        let other = printer.tree(&entry("ls", 8), &call(2, 5, Some(1), vec![]), &names);
        assert!(other.starts_with("\nls 8:\n"), "{other}");
        let odd = printer.tree(&entry("a\nb", 8), &call(2, 5, Some(1), vec![]), &names);
        assert_eq!(odd.lines().count(), 3);
    }

    #[test]
    fn objects() {
        let names = Names::of(NAMES);
        let mut printer = Printer::new(true);
        let text = printer.tree(&entry("cat", 7), &tree(), &names);
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0]["returned"], -2);
        assert_eq!(lines[1]["errno"], "ENOENT");
        assert_eq!(lines[1]["depth"], 1);
        assert_eq!(lines[1]["gap"], true);
        assert_eq!(lines[2]["duration_ns"], serde_json::Value::Null);
        assert_eq!(lines[2]["module"], "overlay");
        assert_eq!(lines[2]["end"], "lost");
        assert_eq!(lines[3]["interrupt"], true);
    }
}
