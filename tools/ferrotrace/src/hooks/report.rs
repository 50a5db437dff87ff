// SPDX-License-Identifier: GPL-2.0

//! The report on a sample of the hooks, and how it is shown: a line for each exit, with the time.

#![deny(unsafe_code)]

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::model::ExitId;
use super::watch::Counts;
use crate::clock::Wall;

/// Change of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing.
    None,
    /// It was registered.
    New,
    /// It counts from 0 again.
    Restarted,
    /// It was deregistered, or its module has gone.
    Gone,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The exit.
    pub exit: ExitId,
    /// Its counts.
    pub counts: Counts,
    /// Change of the exit.
    pub event: Event,
}

/// The report on one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// When the sample was taken, on the clock of all samples.
    pub time: Duration,
    /// The time that the counts cover; `None` if they are those since registration.
    pub span: Option<Duration>,
    /// The exits to report on, in the order of the hooks.
    pub rows: Vec<Row>,
}

/// How times are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// As dates: nanoseconds from the epoch to the zero of the clock.
    pub wall: Option<u64>,
}

impl Style {
    /// Columns for a time.
    fn width(self) -> usize {
        match self.wall {
            Some(_) => 30,
            None => 14,
        }
    }

    /// The names of the columns.
    pub fn header(self) -> String {
        format!(
            "{:>width$} {:>12} {:>12} {:>8}  exit\n",
            "time",
            "hits",
            "hits/s",
            "stops",
            width = self.width()
        )
    }

    /// The time as a date, if that is wanted.
    fn date(self, time: Duration) -> Option<String> {
        let offset = self.wall?;
        Some(Wall(nanos(time).saturating_add(offset)).to_string())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A count per second, to a tenth.
fn rate(count: u64, span: Duration) -> String {
    let tenths = u128::from(count) * 10_000_000_000 / span.as_nanos().max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

impl Event {
    /// A word for it.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::New => Some("new"),
            Self::Restarted => Some("restarted"),
            Self::Gone => Some("gone"),
        }
    }
}

impl Report {
    /// A line with the report as JSON, whose exits are called `what`. Times are nanoseconds.
    pub fn json(&self, what: &str, style: Style) -> String {
        let rows = self.rows.iter().map(|row| {
            json!({
                "hook": row.exit.hook.as_str(),
                "exit": row.exit.exit.as_str(),
                "hits": row.counts.hits,
                "stops": row.counts.stops,
                "event": row.event.word(),
            })
        });
        let rows: Vec<_> = rows.collect();
        let (time, span) = (nanos(self.time), self.span.map(nanos));
        let mut object = json!({ "time": time, "span": span, what: rows });
        if let (Some(date), Some(map)) = (style.date(self.time), object.as_object_mut()) {
            map.insert("wall".to_owned(), date.into());
        }
        format!("{object}\n")
    }

    /// A line for each exit.
    pub fn text(&self, style: Style) -> String {
        let width = style.width();
        let seconds = || format!("{}.{:03}", self.time.as_secs(), self.time.subsec_millis());
        let time = style.date(self.time).unwrap_or_else(seconds);
        if self.rows.is_empty() {
            let what = match self.span {
                Some(_) => "no hits",
                None => "no exit is armed",
            };
            return format!("{time:>width$} {what}\n");
        }
        let mut text = String::new();
        for row in &self.rows {
            if row.event == Event::Gone {
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "{time:>width$} {:>12} {:>12} {:>8}  {} (gone)",
                    "-", "-", "-", row.exit
                );
                continue;
            }
            let rate = match self.span {
                Some(span) => rate(row.counts.hits, span),
                None => "-".to_owned(),
            };
            let event = match row.event {
                Event::New => " (new)",
                Event::Restarted => " (counts from 0 again)",
                Event::None | Event::Gone => "",
            };
            let _ = writeln!(
                text,
                "{time:>width$} {:>12} {rate:>12} {:>8}  {}{event}",
                row.counts.hits, row.counts.stops, row.exit
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_json() {
        let report = Report {
            time: Duration::from_millis(1_500),
            span: Some(Duration::from_secs(1)),
            rows: vec![Row {
                exit: ExitId {
                    hook: "int3".parse().unwrap(),
                    exit: "mine".parse().unwrap(),
                },
                counts: Counts { hits: 7, stops: 1 },
                event: Event::Restarted,
            }],
        };
        assert_eq!(
            report.json("calls", Style::default()),
            "{\"calls\":[{\"event\":\"restarted\",\"exit\":\"mine\",\"hits\":7,\"hook\":\"int3\",\"stops\":1}],\
             \"span\":1000000000,\"time\":1500000000}\n"
        );
    }

    #[test]
    fn dates() {
        let report = Report {
            time: Duration::from_millis(1_500),
            span: None,
            rows: Vec::new(),
        };
        let style = Style {
            wall: Some(1_700_000_000_000_000_000),
        };
        let date = "2023-11-14T22:13:21.500000000Z";
        assert_eq!(report.text(style), format!("{date} no exit is armed\n"));
        assert_eq!(
            report.json("armed", style),
            format!("{{\"armed\":[],\"span\":null,\"time\":1500000000,\"wall\":\"{date}\"}}\n")
        );
        // The columns are below their names.
        let header = style.header();
        assert_eq!(header.find("time").unwrap() + 4, date.len());
    }

    #[test]
    fn rates() {
        assert_eq!(rate(10, Duration::from_secs(1) * 4), "2.5");
        assert_eq!(rate(0, Duration::ZERO), "0.0");
        assert_eq!(
            rate(u64::MAX, Duration::ZERO),
            "18446744073709551615000000000.0"
        );
    }
}
