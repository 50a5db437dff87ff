// SPDX-License-Identifier: GPL-2.0

//! The report on a sample of the hooks, and how it is shown: a line for each exit, with the time.

#![deny(unsafe_code)]

use std::fmt;
use std::time::Duration;

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
    fn rates() {
        assert_eq!(rate(10, Duration::from_secs(1) * 4), "2.5");
        assert_eq!(rate(0, Duration::ZERO), "0.0");
        assert_eq!(
            rate(u64::MAX, Duration::ZERO),
            "18446744073709551615000000000.0"
        );
    }
}
