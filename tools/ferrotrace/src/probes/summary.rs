// SPDX-License-Identifier: GPL-2.0

//! Hits added up: how many there are of each key, and how long what they end has taken.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::error::Error;
use super::error::Result;
use super::event::Event;
use super::model::Probe;
use super::print::values;
use super::screen::Screen;
use super::screen::Sort;
use super::screen::View;
use super::spec::is_identifier;
use super::symbols::Symbols;
use super::watch::Now;
use super::watch::Show;
use crate::file::IoError;
use crate::functions::histogram::Histogram;
use crate::functions::print::Time;
use crate::functions::print::Times;
use crate::functions::print::columns;
use crate::functions::print::heads;
use crate::functions::tally::Stats;

/// The width of the longest bar of a histogram.
const BAR: usize = 40;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// Where the probe is.
    Place,
    /// The thread's name.
    Comm,
    /// The thread.
    Pid,
    /// The CPU.
    Cpu,
    /// An argument.
    Arg(String),
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Ok(match text {
            "place" => Self::Place,
            "comm" => Self::Comm,
            "pid" => Self::Pid,
            "cpu" => Self::Cpu,
            name if is_identifier(name) => Self::Arg(name.to_owned()),
            _ => return Err("not place, comm, pid, cpu or the name of an argument".to_owned()),
        })
    }
}

impl By {
    fn name(&self) -> &str {
        match self {
            Self::Place => "place",
            Self::Comm => "comm",
            Self::Pid => "pid",
            Self::Cpu => "cpu",
            Self::Arg(name) => name,
        }
    }
}

/// How times are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// There are none: hits are counted.
    No,
    /// From the entry of a function to its return.
    Calls,
    /// From the last hit of the temporary probe of this number in the same thread.
    Since(usize),
}

/// How it is shown.
#[derive(Clone, Debug)]
pub struct Style {
    /// Parts of the key.
    pub by: Vec<By>,
    /// How times are had.
    pub timed: Timed,
    /// How often to report.
    pub interval: Duration,
    /// At most so many keys.
    pub top: Option<usize>,
    /// One JSON object on each line.
    pub json: bool,
    /// Nothing but the key and the hits of all, at the end: stacks as flame graphs take them.
    pub folded: bool,
}

type Tally = HashMap<Vec<String>, Stats>;

/// Hits, added up.
pub struct Summary<'a, P> {
    style: Style,
    symbols: &'a Symbols,
    print: P,
    /// All hits.
    total: Tally,
    /// Those since the last report.
    recent: Tally,
    /// All times.
    histogram: Histogram,
    /// When a thread began what a hit ends.
    began: HashMap<i32, u64>,
    /// Calls whose time is not known.
    untimed: u64,
    /// Hits that had found no room at the last round.
    dropped: u64,
    /// How long hits have been wanted, and until when they have been reported.
    at: Duration,
    reported: Duration,
    screen: Option<Screen>,
    /// Contents shown while the display is paused.
    frozen: Option<Shot>,
}

/// Contents of a screen.
struct Shot {
    total: Tally,
    histogram: Histogram,
    status: String,
}

#[derive(Serialize)]
struct Row {
    key: serde_json::Map<String, serde_json::Value>,
    hits: u64,
    #[serde(flatten)]
    times: Option<Times>,
}

impl<'a, P: FnMut(&str) -> Result<bool>> Summary<'a, P> {
    /// Nothing yet. `print` returns whether there still is a reader. On a screen all hits so far are shown.
    pub fn new(style: Style, symbols: &'a Symbols, screen: Option<Screen>, print: P) -> Self {
        Self {
            style,
            symbols,
            print,
            total: Tally::new(),
            recent: Tally::new(),
            histogram: Histogram::default(),
            began: HashMap::new(),
            untimed: 0,
            dropped: 0,
            at: Duration::ZERO,
            reported: Duration::ZERO,
            screen,
            frozen: None,
        }
    }

    /// Shows all hits.
    pub fn finish(&mut self, dropped: u64) -> Result<()> {
        let at = self.at;
        // What follows stays on the terminal.
        self.screen = None;
        if self.style.folded {
            let text = self.folded();
            return (self.print)(&text).map(|_| ());
        }
        let mut text = match self.style.json {
            true => {
                let mut object = self.json(&self.total, at, at, dropped);
                if let (true, Some(map)) = (self.is_timed(), object.as_object_mut()) {
                    let rows = self.histogram.powers().into_iter();
                    let rows = rows.map(
                        |(from, to, hits)| json!({"from_ns": from, "to_ns": to, "hits": hits}),
                    );
                    map.insert("histogram".to_owned(), rows.collect());
                }
                format!("{}\n", json!({ "summary": object }))
            }
            false => self.text(&self.total, "in all, ", at, dropped),
        };
        if !self.style.json {
            text.push_str(&bars(&self.histogram));
        }
        (self.print)(&text).map(|_| ())
    }

    fn is_timed(&self) -> bool {
        self.style.timed != Timed::No
    }

    fn key(&self, event: &Event, probe: &Probe) -> Vec<String> {
        let part = |by: &By| match by {
            By::Place => probe.place.to_string(),
            By::Comm => event.comm.clone(),
            By::Pid => event.pid.to_string(),
            By::Cpu => event.cpu.to_string(),
            By::Arg(name) => {
                let mut values = values(event, probe).filter(|(other, _)| other == name);
                let value = values
                    .next()
                    .map(|(_, value)| value.text(event.pid, self.symbols));
                value.unwrap_or_else(|| "-".to_owned())
            }
        };
        self.style.by.iter().map(part).collect()
    }

    /// The keys, those with most time or hits first, and how many more there are.
    fn rows<'t>(&self, tally: &'t Tally) -> (Vec<(&'t Vec<String>, &'t Stats)>, usize) {
        let mut rows: Vec<_> = tally.iter().collect();
        Sort::Total.sort(&mut rows);
        let top = self.style.top.unwrap_or(usize::MAX);
        let more = rows.len().saturating_sub(top);
        rows.truncate(top);
        (rows, more)
    }

    fn folded(&self) -> String {
        let (rows, _) = self.rows(&self.total);
        let lines = rows.into_iter().map(|(key, stats)| {
            let value = match self.is_timed() {
                true => stats.total,
                false => stats.calls,
            };
            format!("{} {value}\n", key.join(";"))
        });
        lines.collect()
    }

    /// How long that took, and how much there is.
    fn status(&self, tally: &Tally, title: &str, at: Duration, dropped: u64) -> String {
        let hits: u64 = tally.values().map(|stats| stats.calls).sum();
        let seconds = at.as_secs_f64();
        let untimed = match self.untimed {
            0 => String::new(),
            calls => format!(", {calls} calls whose entry was not seen"),
        };
        format!("{title}{seconds:.1} s: {hits} hits, {dropped} dropped{untimed}")
    }

    /// Does what the user wants, and draws if there is something new. Returns whether to go on.
    fn on_screen(&mut self, screen: &mut Screen, is_due: bool, now: &Now<'_>) -> Result<bool> {
        let failed = |source| {
            Error::Io(IoError {
                action: "use the terminal",
                path: "standard output".into(),
                source,
            })
        };
        let timed = self.is_timed();
        let (goes_on, any) = screen.input(timed).map_err(failed)?;
        if !goes_on || !(is_due || any) {
            return Ok(goes_on);
        }
        let dropped = (now.dropped)()?;
        let status = self.status(&self.total, "", self.at, dropped);
        match (screen.state.is_paused, &self.frozen) {
            (true, None) => {
                self.frozen = Some(Shot {
                    total: self.total.clone(),
                    histogram: self.histogram.clone(),
                    status: status.clone(),
                });
            }
            (false, Some(_)) => self.frozen = None,
            _ => (),
        }
        let (total, histogram, status) = match &self.frozen {
            Some(shot) => (&shot.total, &shot.histogram, shot.status.clone()),
            None => (&self.total, &self.histogram, status),
        };
        let mut rows: Vec<_> = total.iter().collect();
        screen.state.sort.sort(&mut rows);
        let view = View {
            names: self.style.by.iter().map(By::name).collect(),
            rows,
            timed,
            status,
            bars: bars(histogram),
        };
        screen.draw(&view).map_err(failed)?;
        Ok(true)
    }

    fn text(&self, tally: &Tally, title: &str, at: Duration, dropped: u64) -> String {
        let (rows, more) = self.rows(tally);
        let mut text = String::new();
        if !rows.is_empty() {
            let names: Vec<_> = self.style.by.iter().map(By::name).collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{}  {}",
                heads("hits", self.is_timed()),
                names.join(" ")
            );
        }
        for (key, stats) in rows {
            let _ = writeln!(
                text,
                "{}  {}",
                columns(stats, self.is_timed()),
                key.join(" ")
            );
        }
        if more > 0 {
            let _ = writeln!(text, "and {more} more");
        }
        text.push_str(&self.status(tally, title, at, dropped));
        text.push('\n');
        text
    }

    fn json(&self, tally: &Tally, at: Duration, span: Duration, dropped: u64) -> serde_json::Value {
        let (rows, more) = self.rows(tally);
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(key, stats)| {
                let names = self.style.by.iter().map(|by| by.name().to_owned());
                let parts = key.iter().map(|part| part.clone().into());
                Row {
                    key: names.zip(parts).collect(),
                    hits: stats.calls,
                    times: self.is_timed().then(|| Times::of(stats)),
                }
            })
            .collect();
        json!({
            "at": at.as_secs_f64(),
            "span": span.as_secs_f64(),
            "rows": rows,
            "more": more,
            "hits": tally.values().map(|stats| stats.calls).sum::<u64>(),
            "dropped": dropped,
            "untimed": self.untimed,
        })
    }
}

impl<P: FnMut(&str) -> Result<bool>> Show for Summary<'_, P> {
    fn hit(&mut self, event: &Event, probe: &Probe) {
        let time = match self.style.timed {
            Timed::No => 0,
            Timed::Calls => match event.duration {
                Some(time) => time,
                // To show one would be to invent it.
                None => {
                    self.untimed += 1;
                    return;
                }
            },
            Timed::Since(number) => {
                if temporary_number(&probe.name) == Some(number) {
                    self.began.insert(event.pid, event.time);
                    return;
                }
                // Each beginning has one end.
                let Some(began) = self.began.remove(&event.pid) else {
                    return;
                };
                event.time.saturating_sub(began)
            }
        };
        let key = self.key(event, probe);
        self.recent.entry(key.clone()).or_default().add(time);
        self.total.entry(key).or_default().add(time);
        if self.is_timed() {
            self.histogram.add(time);
        }
    }

    fn round(&mut self, now: &Now<'_>) -> Result<bool> {
        self.at = now.at;
        if matches!(self.style.timed, Timed::Since(_)) {
            let dropped = (now.dropped)()?;
            if dropped > self.dropped {
                // The end of some, or another beginning, is among those hits.
                self.began.clear();
            }
            self.dropped = dropped;
        }
        let span = self.at.saturating_sub(self.reported);
        let is_due = span >= self.style.interval;
        if let Some(mut screen) = self.screen.take() {
            if is_due {
                self.reported = self.at;
            }
            self.recent.clear();
            let goes_on = self.on_screen(&mut screen, is_due, now);
            self.screen = Some(screen);
            return goes_on;
        }
        if !is_due || self.style.folded {
            return (self.print)("");
        }
        self.reported = self.at;
        let at = self.at;
        let recent = std::mem::take(&mut self.recent);
        let dropped = (now.dropped)()?;
        let text = match self.style.json {
            true => format!("{}\n", self.json(&recent, at, span, dropped)),
            false => format!("{}\n", self.text(&recent, "", at, dropped)),
        };
        (self.print)(&text)
    }
}

/// The number of a temporary probe, from its name.
fn temporary_number(name: &str) -> Option<usize> {
    name.rsplit(['.', '_']).next()?.parse().ok()
}

/// A histogram with a bar for each power of two.
fn bars(histogram: &Histogram) -> String {
    let rows = histogram.powers();
    let most = rows.iter().map(|(_, _, count)| *count).max().unwrap_or(0);
    let mut text = String::new();
    for (from, to, count) in rows {
        let width = u128::from(count) * u128::try_from(BAR).unwrap_or(0);
        let width = width.div_ceil(u128::from(most.max(1)));
        let bar = "#".repeat(usize::try_from(width).unwrap_or(BAR));
        let (from, to) = (Time(from), Time(to));
        // Writing to a string does not fail.
        let line = format!("{from:>12} - {to:<12} {count:>10}  {bar}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::event;
    use super::super::model::parse_list;
    use super::super::model::tests::LIST;
    use super::*;

    fn style(by: &[By], timed: Timed) -> Style {
        Style {
            by: by.to_vec(),
            timed,
            interval: Duration::ZERO,
            top: None,
            json: false,
            folded: false,
        }
    }

    fn now() -> Now<'static> {
        Now {
            at: Duration::from_millis(2_100),
            dropped: &|| Ok(3),
        }
    }

    /// Returns the output for these hits of the list's second probe: CPU, time, thread, duration.
    fn printed(style: Style, hits: &[(usize, u32, u64, i32, u64)]) -> String {
        let mut probes = parse_list(LIST).unwrap();
        for (index, probe) in probes.iter_mut().enumerate() {
            probe.name = format!("watch.1.{index}");
        }
        let symbols = Symbols::default();
        let mut out = String::new();
        let mut summary = Summary::new(style, &symbols, None, |text: &str| {
            out.push_str(text);
            Ok(true)
        });
        for (probe, cpu, time, pid, duration) in hits {
            let hit = Event {
                cpu: *cpu,
                pid: *pid,
                duration: Some(*duration),
                ..event(*time)
            };
            summary.hit(&hit, &probes[*probe]);
        }
        summary.round(&now()).unwrap();
        summary.finish(3).unwrap();
        out
    }

    #[test]
    fn hits_by_key() {
        let hits = [(0, 0, 1, 42, 0), (1, 0, 2, 43, 0), (0, 1, 3, 42, 0)];
        let out = printed(style(&[By::Place], Timed::No), &hits);
        let table = "      hits  place\n         2  kernel_clone\n         1  do_sys_openat2\n";
        assert_eq!(out.matches(table).count(), 2, "{out}");
        // However long the probes took to come, and take to go.
        assert!(
            out.ends_with("\nin all, 2.1 s: 3 hits, 3 dropped\n"),
            "{out}"
        );
        let mut top = style(&[By::Comm, By::Pid], Timed::No);
        top.top = Some(1);
        let out = printed(top, &hits);
        assert!(
            out.contains("  comm pid\n         2  cat 42\nand 1 more\n"),
            "{out}"
        );
        let out = printed(style(&[By::Arg("x".to_owned())], Timed::No), &hits);
        assert!(out.contains("         3  -\n"), "{out}");
    }

    #[test]
    fn folded_stacks() {
        let hits = [(0, 0, 1, 42, 0), (1, 0, 2, 43, 0), (0, 1, 3, 42, 0)];
        let mut folded = style(&[By::Comm, By::Place], Timed::No);
        folded.folded = true;
        let out = printed(folded, &hits);
        assert_eq!(out, "cat;kernel_clone 2\ncat;do_sys_openat2 1\n");
    }

    #[test]
    fn times() {
        let hits = [
            (1, 0, 1, 42, 5000),
            (1, 0, 2, 43, 1000),
            (1, 1, 3, 42, 7000),
        ];
        let out = printed(style(&[By::Cpu], Timed::Calls), &hits);
        let row = "         2    6.000 us    3.000 us    5.000 us    5.000 us  0\n";
        assert!(out.contains(row), "{out}");
        assert!(
            out.contains("  512 ns - 1.023 us              1  ####################\n"),
            "{out}"
        );
        assert!(
            out.ends_with(
                "    4.096 us - 8.191 us              2  ########################################\n"
            ),
            "{out}"
        );
        let mut json = style(&[By::Cpu], Timed::Calls);
        json.json = true;
        let out = printed(json, &hits);
        let lines: Vec<serde_json::Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["rows"][0]["key"]["cpu"], "1");
        assert_eq!(lines[0]["rows"][0]["total_ns"], 7000);
        assert_eq!(lines[1]["summary"]["histogram"][0]["from_ns"], 512);
        assert_eq!(lines[1]["summary"]["hits"], 3);
        assert_eq!(lines[1]["summary"]["dropped"], 3);
    }

    #[test]
    fn between_two_probes() {
        // Of two threads that cross; an end without a beginning, and two ends.
        let hits = [
            (1, 0, 5, 42, 0),
            (0, 0, 10, 42, 0),
            (0, 1, 20, 43, 0),
            (1, 1, 110, 42, 0),
            (1, 1, 115, 42, 0),
            (1, 1, 1020, 43, 0),
        ];
        let out = printed(style(&[By::Pid], Timed::Since(0)), &hits);
        assert!(out.contains("    1.000 us  43\n"), "{out}");
        assert!(out.contains("      100 ns  42\n"), "{out}");
        assert!(out.contains("s: 2 hits, "), "{out}");
    }
}
