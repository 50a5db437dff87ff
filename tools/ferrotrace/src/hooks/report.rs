// SPDX-License-Identifier: GPL-2.0

//! The report on a sample of the hooks, and how it is shown: a line for each exit, with the time.

#![deny(unsafe_code)]

use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::model::ExitId;
use super::watch::Counts;

/// What has happened to an exit.
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
    /// What has happened to it.
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

/// The names of the columns.
pub fn header() -> String {
    format!(
        "{:>14} {:>12} {:>12} {:>8}  exit\n",
        "time", "hits", "hits/s", "stops"
    )
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
    pub fn json(&self, what: &str) -> String {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
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
        format!("{}\n", json!({ "time": time, "span": span, what: rows }))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = format!("{}.{:03}", self.time.as_secs(), self.time.subsec_millis());
        if self.rows.is_empty() {
            let what = match self.span {
                Some(_) => "no hits",
                None => "no exit is armed",
            };
            return writeln!(f, "{time:>14} {what}");
        }
        for row in &self.rows {
            if row.event == Event::Gone {
                writeln!(
                    f,
                    "{time:>14} {:>12} {:>12} {:>8}  {} (gone)",
                    "-", "-", "-", row.exit
                )?;
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
            writeln!(
                f,
                "{time:>14} {:>12} {rate:>12} {:>8}  {}{event}",
                row.counts.hits, row.counts.stops, row.exit
            )?;
        }
        Ok(())
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
            report.json("calls"),
            "{\"calls\":[{\"event\":\"restarted\",\"exit\":\"mine\",\"hits\":7,\"hook\":\"int3\",\"stops\":1}],\
             \"span\":1000000000,\"time\":1500000000}\n"
        );
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
