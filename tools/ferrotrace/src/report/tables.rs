// SPDX-License-Identifier: GPL-2.0

//! The tables of a report: the types of records, the CPUs, what they ran, and the calls of functions.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;

use crate::export::tracks::Item;
use crate::export::tracks::Span;
use crate::export::tracks::Track;
use crate::merge::format::Format;
use crate::merge::run::Counts;
use crate::merge::source::Event;

/// The most names that are told apart in a table.
const NAMES: usize = 4096;

/// How often, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stat {
    count: u64,
    total: u64,
    longest: u64,
}

impl Stat {
    fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.longest = self.longest.max(nanos);
    }

    fn mean(self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }
}

/// Statistics by name.
#[derive(Debug, Default)]
struct ByName {
    known: BTreeMap<String, Stat>,
    others: Stat,
}

impl ByName {
    fn add(&mut self, name: &str, nanos: u64) {
        if let Some(stat) = self.known.get_mut(name) {
            stat.add(nanos);
        } else if self.known.len() < NAMES {
            self.known.entry(name.to_owned()).or_default().add(nanos);
        } else {
            self.others.add(nanos);
        }
    }

    /// The names with the greatest `key` first, and the others at the end.
    fn sorted(&self, key: impl Fn(&Stat) -> u64) -> Vec<(&str, Stat)> {
        let mut all: Vec<_> = self.known.iter().collect();
        all.sort_by_key(|(_, stat)| std::cmp::Reverse(key(stat)));
        let mut all: Vec<_> = all
            .into_iter()
            .map(|(name, stat)| (name.as_str(), *stat))
            .collect();
        if self.others.count > 0 {
            all.push(("(others)", self.others));
        }
        all
    }
}

/// A CPU.
#[derive(Debug, Default)]
struct Cpu {
    records: u64,
    lost: u64,
    busy: u64,
    switches: u64,
}

/// Data of the tables.
#[derive(Debug, Default)]
pub struct Tables {
    types: ByName,
    cpus: BTreeMap<u32, Cpu>,
    tasks: ByName,
    calls: ByName,
    span: Option<(u64, u64)>,
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A name.
    Name(String),
    /// A number.
    Count(u64),
    /// Nanoseconds.
    Time(u64),
    /// Thousandths.
    Share(u64),
}

impl Cell {
    /// Returns the number that rows are sorted by; `None` for text.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Name(_) => None,
            Self::Count(number) | Self::Time(number) | Self::Share(number) => Some(*number),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Count(count) => write!(f, "{count}"),
            Self::Time(nanos) => time(f, *nanos),
            Self::Share(share) => write!(f, "{}.{} %", share / 10, share % 10),
        }
    }
}

/// Four digits or more, with a unit.
fn time(f: &mut fmt::Formatter<'_>, nanos: u64) -> fmt::Result {
    for (unit, one) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos >= one {
            let thousandths = nanos / (one / 1_000);
            let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
            return write!(f, "{whole}.{rest:03} {unit}");
        }
    }
    write!(f, "{nanos} ns")
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Subject of the table.
    pub title: &'static str,
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// The rows, the most important ones first.
    pub rows: Vec<Vec<Cell>>,
}

impl Tables {
    /// Takes a record.
    pub fn record(&mut self, event: &Event, format: &Format) {
        self.types.add(&format.name, 0);
        self.cpus.entry(event.cpu).or_default().records += 1;
        if event.timed {
            let (first, last) = self.span.unwrap_or((event.time, event.time));
            self.span = Some((first.min(event.time), last.max(event.time)));
        }
    }

    /// Takes something that is drawn.
    pub fn item(&mut self, item: &Item<'_>) {
        let Span::Slice(from, to) = item.span else {
            return;
        };
        let nanos = to.saturating_sub(from);
        match item.track {
            Track::Cpu(cpu) => {
                self.tasks.add(item.name, nanos);
                let cpu = self.cpus.entry(cpu).or_default();
                cpu.busy = cpu.busy.saturating_add(nanos);
                cpu.switches += 1;
            }
            Track::Thread(_) => self.calls.add(item.name, nanos),
        }
    }

    /// Takes what was lost on each CPU.
    pub fn losses(&mut self, counts: &Counts) {
        for (cpu, lost) in &counts.lost {
            self.cpus.entry(*cpu).or_default().lost = *lost;
        }
    }

    /// The time between the first and the last record, in nanoseconds.
    pub fn span(&self) -> u64 {
        self.span
            .map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// Thousandths of the time that the records cover.
    fn share(&self, nanos: u64) -> u64 {
        let share = u128::from(nanos) * 1_000 / u128::from(self.span().max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// The tables that have rows, with `most` rows at most.
    pub fn tables(&self, most: usize) -> Vec<Table> {
        let name = |name: &str| Cell::Name(name.to_owned());
        let cpus = self.cpus.iter().map(|(cpu, of)| {
            vec![
                Cell::Count(u64::from(*cpu)),
                Cell::Count(of.records),
                Cell::Count(of.lost),
                Cell::Count(of.switches),
                Cell::Time(of.busy),
                Cell::Share(self.share(of.busy)),
            ]
        });
        let types = self.types.sorted(|stat| stat.count);
        let types = types
            .iter()
            .map(|(of, stat)| vec![name(of), Cell::Count(stat.count)]);
        let times = |(of, stat): &(&str, Stat)| {
            vec![
                name(of),
                Cell::Count(stat.count),
                Cell::Time(stat.total),
                Cell::Share(self.share(stat.total)),
                Cell::Time(stat.mean()),
                Cell::Time(stat.longest),
            ]
        };
        let tasks = self.tasks.sorted(|stat| stat.total);
        let calls = self.calls.sorted(|stat| stat.total);
        let mut tables = vec![
            Table {
                title: "Records",
                columns: &["type", "records"],
                rows: types.take(most).collect(),
            },
            Table {
                title: "CPUs",
                columns: &["cpu", "records", "lost", "slices", "busy", "share"],
                rows: cpus.take(most).collect(),
            },
            Table {
                title: "What the CPUs ran",
                columns: &["task", "slices", "total", "share", "mean", "longest"],
                rows: tasks.iter().map(times).take(most).collect(),
            },
            Table {
                title: "Calls",
                columns: &["function", "calls", "total", "share", "mean", "longest"],
                rows: calls.iter().map(times).take(most).collect(),
            },
        ];
        tables.retain(|table| !table.rows.is_empty());
        tables
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::to_string).collect())
            .collect();
        let width = |column: usize, title: &str| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widths = cells.map(|cell| cell.chars().count());
            widths.chain([title.len()]).max().unwrap_or(0)
        };
        let columns = self.columns.iter().enumerate();
        let widths: Vec<usize> = columns.map(|(index, title)| width(index, title)).collect();
        let titles: Vec<String> = self
            .columns
            .iter()
            .map(|title| (*title).to_owned())
            .collect();
        writeln!(f, "{}", self.title)?;
        for row in [titles].iter().chain(&rows) {
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match index {
                    0 => write!(f, "  {cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.000 us"),
            (1_999_999, "1.999 ms"),
            (61_000_000_000, "61.000 s"),
        ] {
            assert_eq!(Cell::Time(nanos).to_string(), text);
        }
        assert_eq!(Cell::Share(1_005).to_string(), "100.5 %");
    }

    /// However many names there are, nothing is lost.
    #[test]
    fn names_beyond_the_limit_are_others() {
        let mut names = ByName::default();
        let many = u64::try_from(NAMES).unwrap() + 100;
        for round in 1..=3 {
            for name in 0..many {
                names.add(&format!("name{name}"), round);
            }
        }
        let sorted = names.sorted(|stat| stat.total);
        assert_eq!(sorted.len(), NAMES + 1);
        let (name, others) = sorted.last().unwrap();
        assert_eq!((*name, others.count, others.total), ("(others)", 300, 600));
        let count: u64 = sorted.iter().map(|(_, stat)| stat.count).sum();
        assert_eq!(count, 3 * many);
    }
}
