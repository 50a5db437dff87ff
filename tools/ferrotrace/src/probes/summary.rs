// SPDX-License-Identifier: GPL-2.0

//! Hits added up: how many there are of each key, and how long what they end has taken.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
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
use super::print::Returned;
use super::print::values;
use super::screen::Screen;
use super::screen::Sort;
use super::screen::View;
use super::spec::is_identifier;
use super::sums::Columns;
use super::sums::Figures;
use super::sums::Sums;
use super::sums::Values;
use super::sums::bars;
use super::symbols::Symbols;
use super::watch::Now;
use super::watch::Show;
use crate::file::IoError;
use crate::functions::histogram::Histogram;
use crate::functions::print::Time;
use crate::functions::print::Times;

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
            "kstack" => Self::Arg("stack".to_owned()),
            name if is_identifier(name) => Self::Arg(name.to_owned()),
            _ => return Err("not place, comm, pid, cpu or the name of an argument".to_owned()),
        })
    }
}

impl By {
    pub(super) fn name(&self) -> &str {
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

/// Values of hits to add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueOf {
    /// Name of the argument.
    pub name: String,
    /// True for a histogram of each key.
    pub has_classes: bool,
    /// True if the least or the greatest value is wanted.
    pub has_extremes: bool,
    /// Order of the keys.
    pub sort: Sort,
}

/// How it is shown.
#[derive(Clone, Debug)]
pub struct Style {
    /// Parts of the key.
    pub by: Vec<By>,
    /// How times are had.
    pub timed: Timed,
    /// Values to add up, in place of times.
    pub value: Option<ValueOf>,
    /// How often to report.
    pub interval: Duration,
    /// At most so many keys.
    pub top: Option<usize>,
    /// One JSON object on each line.
    pub json: bool,
    /// Nothing but the key and the hits of all, at the end: stacks as flame graphs take them.
    pub folded: bool,
    /// The place where hits are lost, for the word "lost".
    pub lost: Option<Place>,
}

/// Place where hits are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// They found no room.
    InKernel,
    /// Later ones took their place.
    Overwritten,
}

impl Place {
    /// Its words, and its name in JSON.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::InKernel => ("in the kernel", "in_kernel"),
            Self::Overwritten => ("overwritten", "overwritten"),
        }
    }
}

type Tally = HashMap<Vec<String>, Sums>;

/// Hits, added up.
pub struct Summary<'a, P> {
    style: Style,
    symbols: &'a Symbols,
    print: P,
    /// All hits.
    total: Tally,
    /// Those since the last report.
    recent: Tally,
    /// Counts of the kernel, as far as they have been added.
    counted: Tally,
    /// All times.
    histogram: Histogram,
    /// When a thread began what a hit ends.
    began: HashMap<i32, u64>,
    /// Calls whose time is not known.
    untimed: u64,
    /// Hits that called no handler, if the kernel has added up the hits.
    missed: u64,
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
    bars: String,
    status: String,
}

#[derive(Serialize)]
struct Row {
    key: serde_json::Map<String, serde_json::Value>,
    hits: u64,
    #[serde(flatten)]
    times: Option<Times>,
    #[serde(flatten)]
    values: Option<Figures>,
}

impl<'a, P: FnMut(&str) -> Result<bool>> Summary<'a, P> {
    /// Nothing yet. `print` returns whether there still is a reader. On a screen all hits so far
    /// are shown.
    pub fn new(style: Style, symbols: &'a Symbols, screen: Option<Screen>, print: P) -> Self {
        Self {
            style,
            symbols,
            print,
            total: Tally::new(),
            recent: Tally::new(),
            counted: Tally::new(),
            histogram: Histogram::default(),
            began: HashMap::new(),
            untimed: 0,
            missed: 0,
            dropped: 0,
            at: Duration::ZERO,
            reported: Duration::ZERO,
            screen,
            frozen: None,
        }
    }

    /// Returns how hits are added up.
    pub(super) fn style(&self) -> &Style {
        &self.style
    }

    /// Returns the time between two reports.
    pub fn interval(&self) -> Duration {
        self.style.interval
    }

    /// Takes the sums of all hits so far, which the kernel has added up.
    pub(super) fn take(&mut self, rows: &[(Event, Sums)], probes: &BTreeMap<u32, Probe>) {
        let mut total = Tally::new();
        let mut histogram = Histogram::default();
        for (event, sums) in rows {
            let Some(probe) = probes.get(&event.probe) else {
                continue;
            };
            let key = self.key(event, probe);
            total.entry(key).or_default().merge(sums);
            histogram.merge(&sums.times.histogram);
        }
        for (key, sums) in &total {
            let recent = match self.total.get(key) {
                Some(before) => sums.since(before),
                None => sums.clone(),
            };
            if recent.times.calls > 0 {
                self.recent.entry(key.clone()).or_default().merge(&recent);
            }
        }
        self.total = total;
        self.histogram = histogram;
    }

    /// Sets the time of the count, and the number of hits that called no handler.
    pub(super) fn end(&mut self, at: Duration, missed: u64) {
        self.at = at;
        self.set_missed(missed);
    }

    /// Sets the number of hits that called no handler.
    pub fn set_missed(&mut self, missed: u64) {
        self.missed = missed;
    }

    /// Adds counts of all hits so far, which the kernel has made.
    pub fn count(&mut self, counts: HashMap<Vec<String>, Sums>) {
        for (key, count) in counts {
            let before = self.counted.insert(key.clone(), count.clone());
            let more = count.since(&before.unwrap_or_default());
            if more.times.calls > 0 {
                self.recent.entry(key.clone()).or_default().merge(&more);
                self.total.entry(key).or_default().merge(&more);
            }
        }
    }

    /// Returns the values of all keys.
    fn all_values(&self) -> Values {
        let mut all = Values::default();
        self.total.values().for_each(|sums| all.merge(&sums.values));
        all
    }

    fn columns(&self) -> Columns {
        match (&self.style.value, self.style.timed) {
            (Some(_), _) => Columns::Values,
            (None, Timed::No) => Columns::Hits,
            (None, _) => Columns::Times,
        }
    }

    fn has_classes(&self) -> bool {
        self.style
            .value
            .as_ref()
            .is_some_and(|value| value.has_classes)
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
            text.push_str(&self.histograms());
        }
        (self.print)(&text).map(|_| ())
    }

    /// Returns the histogram of the times, or those of the values of each key.
    fn histograms(&self) -> String {
        if !self.has_classes() {
            return time_bars(&self.histogram);
        }
        let (rows, _) = self.rows(&self.total);
        let texts = rows
            .into_iter()
            .map(|(key, sums)| format!("\n{}:\n{}", key.join(" "), sums.values.bars()));
        texts.collect()
    }

    /// Returns the histogram below the table of the screen.
    fn bars(&self) -> String {
        match self.has_classes() {
            true => self.all_values().bars(),
            false => time_bars(&self.histogram),
        }
    }

    fn is_timed(&self) -> bool {
        self.style.timed != Timed::No
    }

    fn key(&self, event: &Event, probe: &Probe) -> Vec<String> {
        let part = |by: &By| match by {
            By::Place => probe.place.shown().to_string(),
            By::Comm => event.comm.clone(),
            By::Pid => event.pid.to_string(),
            By::Cpu => event.cpu.to_string(),
            By::Arg(name) => {
                let mut values = values(event, probe).filter(|(other, _)| other == name);
                let value = values
                    .next()
                    .map(|(_, value)| value.text_in_key(name, probe, event.pid, self.symbols));
                let returned = || {
                    let returned = Returned::of(probe, event.value()?);
                    match name.as_str() {
                        "ret" => Some(returned.to_string()),
                        "errno" => returned.errno(),
                        _ => None,
                    }
                };
                value.or_else(returned).unwrap_or_else(|| "-".to_owned())
            }
        };
        self.style.by.iter().map(part).collect()
    }

    /// Returns the value of a hit. `None` if it could not be read.
    fn value(&self, event: &Event, probe: &Probe, name: &str) -> Option<i128> {
        let values = values(event, probe).filter(|(other, _)| *other == name);
        // A tracepoint has the plain number last.
        match values.last() {
            Some((_, value)) => value.number(),
            None if name == "ret" => Some(Returned::of(probe, event.value()?).number().into()),
            None => None,
        }
    }

    /// The keys in their order, those with most time or hits first, and how many more there are.
    fn rows<'t>(&self, tally: &'t Tally) -> (Vec<(&'t Vec<String>, &'t Sums)>, usize) {
        let mut rows: Vec<_> = tally.iter().collect();
        self.sort().sort(&mut rows);
        let top = self.style.top.unwrap_or(usize::MAX);
        let more = rows.len().saturating_sub(top);
        rows.truncate(top);
        (rows, more)
    }

    fn folded(&self) -> String {
        let (rows, _) = self.rows(&self.total);
        let is_sum = self.columns() == Columns::Values && self.sort() == Sort::Total;
        let lines = rows.into_iter().map(|(key, sums)| {
            let value = match self.is_timed() {
                _ if is_sum => sums.values.sum,
                true => sums.times.total.into(),
                false => sums.times.calls.into(),
            };
            format!("{} {value}\n", key.join(";"))
        });
        lines.collect()
    }

    fn sort(&self) -> Sort {
        let value = self.style.value.as_ref();
        value.map_or(Sort::Total, |value| value.sort)
    }

    /// How long that took, and how much there is.
    fn status(&self, tally: &Tally, title: &str, at: Duration, dropped: u64) -> String {
        let hits: u64 = tally.values().map(|sums| sums.times.calls).sum();
        let unread: u64 = tally.values().map(|sums| sums.values.unread).sum();
        let seconds = at.as_secs_f64();
        let untimed = match self.untimed {
            0 => String::new(),
            calls => format!(", {calls} calls whose entry was not seen"),
        };
        let missed = match self.missed {
            0 => String::new(),
            hits => format!(", {hits} missed"),
        };
        let unread = match unread {
            0 => String::new(),
            hits => format!(", {hits} with a value that could not be read"),
        };
        let lost = match (self.style.lost, dropped) {
            (None, _) => format!("{dropped} dropped"),
            (Some(_), 0) => "0 lost".to_owned(),
            (Some(place), _) => format!("{dropped} lost ({})", place.words().0),
        };
        format!("{title}{seconds:.1} s: {hits} hits, {lost}{missed}{untimed}{unread}")
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
        let columns = self.columns();
        let (goes_on, any) = screen.input(columns).map_err(failed)?;
        if !goes_on || !(is_due || any) {
            return Ok(goes_on);
        }
        let dropped = (now.dropped)()?;
        let status = self.status(&self.total, "", self.at, dropped);
        match (screen.state.is_paused, &self.frozen) {
            (true, None) => {
                self.frozen = Some(Shot {
                    total: self.total.clone(),
                    bars: self.bars(),
                    status: status.clone(),
                });
            }
            (false, Some(_)) => self.frozen = None,
            _ => (),
        }
        let (total, bars, status) = match &self.frozen {
            Some(shot) => (&shot.total, shot.bars.clone(), shot.status.clone()),
            None => (&self.total, self.bars(), status),
        };
        let mut rows: Vec<_> = total.iter().collect();
        screen.state.sort.sort(&mut rows);
        let view = View {
            names: self.style.by.iter().map(By::name).collect(),
            rows,
            columns,
            status,
            bars,
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
            let _ = writeln!(text, "{}  {}", self.columns().heads(), names.join(" "));
        }
        for (key, sums) in rows {
            let _ = writeln!(text, "{}  {}", self.columns().row(sums), key.join(" "));
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
        let is_valued = self.columns() == Columns::Values;
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(key, sums)| {
                let names = self.style.by.iter().map(|by| by.name().to_owned());
                let parts = key.iter().map(|part| part.clone().into());
                Row {
                    key: names.zip(parts).collect(),
                    hits: sums.times.calls,
                    times: self.is_timed().then(|| Times::of(&sums.times)),
                    values: is_valued.then(|| sums.values.figures(self.has_classes())),
                }
            })
            .collect();
        let lost = match self.style.lost {
            Some(place) => {
                let (_, name) = place.words();
                ("lost", json!({ name: dropped }))
            }
            None => ("dropped", dropped.into()),
        };
        json!({
            "at": at.as_secs_f64(),
            "span": span.as_secs_f64(),
            "rows": rows,
            "more": more,
            "hits": tally.values().map(|sums| sums.times.calls).sum::<u64>(),
            lost.0: lost.1,
            "untimed": self.untimed,
            "missed": self.missed,
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
        if let Some(ValueOf { name, .. }) = &self.style.value {
            let value = self.value(event, probe, name);
            self.recent.entry(key.clone()).or_default().add_value(value);
            self.total.entry(key).or_default().add_value(value);
            return;
        }
        self.recent.entry(key.clone()).or_default().add_time(time);
        self.total.entry(key).or_default().add_time(time);
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

/// A histogram of times with a bar for each power of two.
fn time_bars(histogram: &Histogram) -> String {
    let rows = histogram.powers().into_iter();
    let rows = rows.map(|(from, to, count)| (Time(from).to_string(), Time(to).to_string(), count));
    bars(&rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
