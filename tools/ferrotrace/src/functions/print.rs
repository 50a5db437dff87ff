// SPDX-License-Identifier: GPL-2.0

//! Calls as lines: for people, or as JSON.

#![deny(unsafe_code)]

use std::fmt;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::available::Functions;
use super::control::Counts;
use super::tally::Stats;
use super::tally::Tally;

/// Start of a table that replaces the one before: a terminal clears its screen.
pub const CLEAR: &str = "\x1b[H\x1b[J";

/// How calls are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// One JSON object on each line.
    pub json: bool,
    /// With how long they took.
    pub timed: bool,
    /// At most so many functions.
    pub top: Option<usize>,
    /// On a terminal, where a table replaces the one before.
    pub terminal: bool,
}

/// Report of the calls counted in an interval.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The calls.
    pub tally: &'a Tally,
    /// Names of the addresses.
    pub functions: &'a Functions,
    /// The time from the start to the end of this.
    pub at: Duration,
    /// How long that was.
    pub span: Duration,
    /// Losses of the report.
    pub counts: Counts,
}

/// Nanoseconds for people.
pub(crate) struct Time(pub(crate) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let thousandths = self.0 % unit * 1000 / unit;
        f.pad(&format!("{}.{thousandths:03} {name}", self.0 / unit))
    }
}

/// A function's calls, for `--json`.
#[derive(Serialize)]
struct Row<'a> {
    function: &'a str,
    module: Option<&'a str>,
    ip: String,
    calls: u64,
    #[serde(flatten)]
    times: Option<Times>,
}

#[derive(Serialize)]
pub(crate) struct Times {
    total_ns: u64,
    mean_ns: u64,
    max_ns: u64,
    p99_ns: u64,
}

impl Times {
    /// Those of some calls.
    pub(crate) fn of(stats: &Stats) -> Self {
        Self {
            total_ns: stats.total,
            mean_ns: stats.mean(),
            max_ns: stats.max,
            p99_ns: stats.p99(),
        }
    }
}

/// The names of the columns of a table with times, or without.
pub(crate) fn heads(first: &str, timed: bool) -> String {
    let mut text = format!("{first:>10}");
    if timed {
        for column in ["total", "mean", "max", "p99"] {
            let _ = write!(text, "{column:>12}");
        }
    }
    text
}

/// The same columns of a row.
pub(crate) fn columns(stats: &Stats, timed: bool) -> String {
    let mut text = format!("{:>10}", stats.calls);
    if timed {
        for value in [stats.total, stats.mean(), stats.max, stats.p99()] {
            let _ = write!(text, "{:>12}", Time(value));
        }
    }
    text
}

/// The name of what is at an address.
fn name(functions: &Functions, ip: u64) -> String {
    match functions.get(ip) {
        Some(function) => match &function.module {
            Some(module) => format!("{} [{module}]", function.name),
            None => function.name.clone(),
        },
        None => format!("{ip:#x}"),
    }
}

impl Report<'_> {
    /// Returns the rows to show, and the number of rows left out.
    fn rows(&self, style: Style) -> (Vec<(u64, &Stats)>, usize) {
        let mut rows = self.tally.sorted();
        let top = style.top.unwrap_or(usize::MAX);
        let more = rows.len().saturating_sub(top);
        rows.truncate(top);
        (rows, more)
    }

    /// As text: a table and a line below it.
    fn text(&self, style: Style, title: &str) -> String {
        let (rows, more) = self.rows(style);
        let mut text = String::new();
        if !rows.is_empty() {
            let _ = writeln!(text, "{}  function", heads("calls", style.timed));
        }
        for (ip, stats) in rows {
            let columns = columns(stats, style.timed);
            let _ = writeln!(text, "{columns}  {}", name(self.functions, ip));
        }
        if more > 0 {
            let _ = writeln!(text, "and {more} more functions");
        }
        let Counts { lost, missed } = self.counts;
        let _ = write!(
            text,
            "{title}{:.1} s: {} calls of {} functions",
            self.at.as_secs_f64(),
            self.tally.calls(),
            self.tally.sorted().len(),
        );
        let _ = write!(text, ", {lost} lost");
        if style.timed {
            let _ = write!(text, ", {missed} missed");
        }
        text.push('\n');
        text
    }

    fn json(&self, style: Style) -> serde_json::Value {
        let (rows, more) = self.rows(style);
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(ip, stats)| {
                let function = self.functions.get(ip);
                Row {
                    function: function.map_or("", |function| &function.name),
                    module: function.and_then(|function| function.module.as_deref()),
                    ip: format!("{ip:#x}"),
                    calls: stats.calls,
                    times: style.timed.then(|| Times::of(stats)),
                }
            })
            .collect();
        json!({
            "at": self.at.as_secs_f64(),
            "span": self.span.as_secs_f64(),
            "functions": rows,
            "more": more,
            "calls": self.tally.calls(),
            "traced": self.functions.len(),
            "lost": self.counts.lost,
            "missed": self.counts.missed,
        })
    }

    /// Returns the report of an interval while calls are counted.
    pub fn interval(&self, style: Style) -> String {
        if style.json {
            return format!("{}\n", self.json(style));
        }
        let text = self.text(style, "");
        if style.terminal {
            return format!("{CLEAR}{text}");
        }
        format!("{text}\n")
    }

    /// Returns the report at the end.
    pub fn summary(&self, style: Style) -> String {
        if style.json {
            return format!("{}\n", json!({ "summary": self.json(style) }));
        }
        let clear = if style.terminal { CLEAR } else { "" };
        format!("{clear}{}", self.text(style, "in all, "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::tests::call;
    use super::*;

    const IP: u64 = 0xffff_ffff_8100_0010;

    fn report(tally: &Tally, functions: &Functions, style: Style, summary: bool) -> String {
        let report = Report {
            tally,
            functions,
            at: Duration::from_millis(2500),
            span: Duration::from_secs(1),
            counts: Counts { lost: 3, missed: 4 },
        };
        match summary {
            true => report.summary(style),
            false => report.interval(style),
        }
    }

    fn tally() -> (Tally, Functions) {
        let mut tally = Tally::default();
        for duration in [500, 1_500] {
            tally.add(call(IP, duration));
        }
        tally.add(call(IP + 16, 2_000_000_000));
        let list = "ffffffff81000010 vfs_read\nffffffff81000020 vfs_fsync [mod]\n";
        let functions = Functions::parse(list, "list".as_ref()).unwrap();
        (tally, functions)
    }

    #[test]
    fn times() {
        for (value, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (12_345_678, "12.345 ms"),
            (61_000_000_000, "61.000 s"),
        ] {
            assert_eq!(Time(value).to_string(), text);
        }
    }

    #[test]
    fn tables() {
        let (tally, functions) = tally();
        let timed = Style {
            timed: true,
            ..Style::default()
        };
        assert_eq!(
            report(&tally, &functions, timed, true),
            "     calls       total        mean         max         p99  function
         1     2.000 s     2.000 s     2.000 s     2.000 s  vfs_fsync [mod]
         2    2.000 us    1.000 us    1.500 us    1.500 us  vfs_read
in all, 2.5 s: 3 calls of 2 functions, 3 lost, 4 missed
"
        );
        let counted = Style {
            top: Some(1),
            ..Style::default()
        };
        assert_eq!(
            report(&tally, &functions, counted, false),
            "     calls  function
         1  vfs_fsync [mod]
and 1 more functions
2.5 s: 3 calls of 2 functions, 3 lost

"
        );
        let none = report(&Tally::default(), &functions, timed, false);
        assert_eq!(none, "2.5 s: 0 calls of 0 functions, 3 lost, 4 missed\n\n");
        let terminal = Style {
            terminal: true,
            ..timed
        };
        assert!(report(&tally, &functions, terminal, false).starts_with("\x1b[H\x1b[J     calls"));
    }

    #[test]
    fn json_lines() {
        let (tally, functions) = tally();
        let style = Style {
            json: true,
            timed: true,
            ..Style::default()
        };
        let line = report(&tally, &functions, style, true);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let summary = &value["summary"];
        assert_eq!(summary["calls"], 3);
        assert_eq!(summary["traced"], 2);
        assert_eq!(
            (&summary["lost"], &summary["missed"]),
            (&3.into(), &4.into())
        );
        let rows = &summary["functions"];
        assert_eq!(rows[0]["module"], "mod");
        assert_eq!(rows[1]["function"], "vfs_read");
        assert_eq!(rows[1]["ip"], "0xffffffff81000010");
        assert_eq!(rows[1]["total_ns"], 2000);
        assert_eq!(rows[1]["p99_ns"], 1500);
        let style = Style {
            timed: false,
            ..style
        };
        let line = report(&tally, &functions, style, false);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["functions"][1]["calls"], 2);
        assert!(value["functions"][1].get("total_ns").is_none());
        assert_eq!(value["at"], 2.5);
    }
}
