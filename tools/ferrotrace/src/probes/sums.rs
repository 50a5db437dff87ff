// SPDX-License-Identifier: GPL-2.0

//! Hits of a key, added up: their number, and their times or values.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;

use ferro_core::histogram::end;
use ferro_kprobe_events_core::value::Value;
use serde::Serialize;
use serde_json::json;

use crate::functions::print::columns;
use crate::functions::print::heads;
use crate::functions::tally::Stats;

/// The width of the longest bar of a histogram.
const BAR: usize = 40;

/// Maximum number of rows of a histogram with several rows for a power of two.
const FINE: usize = 24;

/// Values of hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: i128,
    /// The least, if it is known.
    pub min: Option<i128>,
    /// The greatest, if it is known.
    pub max: Option<i128>,
    /// Hits with a value that could not be read.
    pub unread: u64,
    /// Numbers of values by class: see [`Value::class`].
    pub classes: BTreeMap<i64, u64>,
}

/// Hits of a key.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Their number, and their times.
    pub times: Stats,
    /// Their values.
    pub values: Values,
}

/// Columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// The number of hits.
    Hits,
    /// Their times, too.
    Times,
    /// Their values, too.
    Values,
}

/// Values of a key in JSON. Numbers of more than 64 bits are text.
#[derive(Serialize)]
pub(super) struct Figures {
    sum: serde_json::Value,
    min: serde_json::Value,
    avg: Option<f64>,
    max: serde_json::Value,
    unread: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Vec<serde_json::Value>>,
}

/// Returns the least and the greatest number of a class.
fn range(class: i64) -> (i128, i128) {
    let index = usize::try_from(class.unsigned_abs()).unwrap_or(usize::MAX);
    let first = index
        .checked_sub(1)
        .map_or(0, |before| i128::from(end(before)) + 1);
    let last = i128::from(end(index));
    match class < 0 {
        true => (-last, -first),
        false => (first, last),
    }
}

/// Returns the least and the greatest number in the row of a number, in a histogram with 2^`bits`
/// rows for each power of two.
fn row_of(number: i128, bits: u32) -> (i128, i128) {
    let magnitude = number.unsigned_abs();
    let power = magnitude.checked_ilog2().unwrap_or(0);
    let unused = power.saturating_sub(bits);
    let first = (number.abs() >> unused) << unused;
    let last = first + (1 << unused) - 1;
    match number < 0 {
        true => (-last, -first),
        false => (first, last),
    }
}

fn json_number(number: i128) -> serde_json::Value {
    match (i64::try_from(number), u64::try_from(number)) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => number.to_string().into(),
    }
}

fn text(number: Option<i128>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

impl Values {
    /// Adds the value of a hit, which may be unreadable.
    fn add(&mut self, value: Option<i128>) {
        let Some(value) = value else {
            self.unread += 1;
            return;
        };
        let magnitude = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
        let is_negative = value < 0;
        let class = Value {
            magnitude,
            is_negative,
        };
        self.merge(&Self {
            count: 1,
            sum: value,
            min: Some(value),
            max: Some(value),
            unread: 0,
            classes: BTreeMap::from([(class.class(true), 1)]),
        });
    }

    /// Adds all values of another one.
    pub(super) fn merge(&mut self, other: &Self) {
        let joined = |one: Option<i128>, two: Option<i128>, of: fn(i128, i128) -> i128| {
            match (self.count, other.count) {
                (_, 0) => one,
                (0, _) => two,
                // One that is not known makes both so.
                _ => one.zip(two).map(|(one, two)| of(one, two)),
            }
        };
        self.min = joined(self.min, other.min, i128::min);
        self.max = joined(self.max, other.max, i128::max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.unread += other.unread;
        for (class, count) in &other.classes {
            *self.classes.entry(*class).or_default() += count;
        }
    }

    /// Returns the values since `before` was a copy of this. An extreme among them is known if it
    /// is a new one.
    fn since(&self, before: &Self) -> Self {
        let is_first = before.count == 0;
        let classes = self.classes.iter().filter_map(|(class, count)| {
            let old = before.classes.get(class).copied().unwrap_or(0);
            (*count > old).then(|| (*class, count - old))
        });
        Self {
            count: self.count.saturating_sub(before.count),
            sum: self.sum.saturating_sub(before.sum),
            min: self.min.filter(|_| is_first || self.min < before.min),
            max: self.max.filter(|_| is_first || self.max > before.max),
            unread: self.unread.saturating_sub(before.unread),
            classes: classes.collect(),
        }
    }

    /// Returns the tenths of the average.
    pub(super) fn tenths(&self) -> Option<i128> {
        self.sum.saturating_mul(10).checked_div(self.count.into())
    }

    fn average(&self) -> String {
        let Some(tenths) = self.tenths() else {
            return "-".to_owned();
        };
        let sign = if tenths < 0 { "-" } else { "" };
        let tenths = tenths.unsigned_abs();
        format!("{sign}{}.{}", tenths / 10, tenths % 10)
    }

    fn rows_of(&self, bits: u32) -> Vec<(i128, i128, u64)> {
        let mut rows: Vec<(i128, i128, u64)> = Vec::new();
        for (class, count) in &self.classes {
            let row = row_of(range(*class).0, bits);
            while let Some((_, before, _)) = rows.last().filter(|(_, last, _)| last + 1 < row.0) {
                let (first, last) = row_of(before + 1, bits);
                rows.push((first, last, 0));
            }
            match rows.last_mut() {
                Some((first, _, sum)) if *first == row.0 => *sum += count,
                _ => rows.push((row.0, row.1, *count)),
            }
        }
        rows
    }

    /// Returns a histogram: the least and the greatest number of each row, and how many values it
    /// has. A power of two has eight rows, or less if these are too many.
    fn rows(&self) -> Vec<(i128, i128, u64)> {
        let fine = (1..=3).rev().map(|bits| self.rows_of(bits));
        let mut fine = fine.filter(|rows| rows.len() <= FINE);
        fine.next().unwrap_or_else(|| self.rows_of(0))
    }

    /// Returns the histogram with a bar for each row.
    pub(super) fn bars(&self) -> String {
        let rows = self.rows().into_iter();
        let rows = rows.map(|(from, to, count)| (from.to_string(), to.to_string(), count));
        bars(&rows.collect::<Vec<_>>())
    }

    /// Returns the values for JSON.
    pub(super) fn figures(&self, has_classes: bool) -> Figures {
        let classes = || {
            let classes = self.classes.iter().map(|(class, hits)| {
                let (from, to) = range(*class);
                json!({ "from": json_number(from), "to": json_number(to), "hits": hits })
            });
            classes.collect()
        };
        let number = |number: Option<i128>| number.map(json_number).unwrap_or_default();
        Figures {
            sum: json_number(self.sum),
            min: number(self.min),
            // A tenth is more than is lost here.
            avg: self.average().parse().ok(),
            max: number(self.max),
            unread: self.unread,
            histogram: has_classes.then(classes),
        }
    }
}

impl Sums {
    /// Makes sums of so many hits.
    pub fn of_hits(calls: u64, values: Values) -> Self {
        let times = Stats {
            calls,
            ..Stats::default()
        };
        Self { times, values }
    }

    /// Adds the time of a hit.
    pub fn add_time(&mut self, time: u64) {
        self.times.add(time);
    }

    /// Adds a hit with a value, which may be unreadable.
    pub fn add_value(&mut self, value: Option<i128>) {
        self.times.calls += 1;
        self.values.add(value);
    }

    /// Adds all hits of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.values.merge(&other.values);
    }

    /// Returns the hits since `before` was a copy of this.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            times: self.times.since(&before.times),
            values: self.values.since(&before.values),
        }
    }
}

impl Columns {
    /// Returns the names of the columns.
    pub fn heads(self) -> String {
        let mut text = heads("hits", self == Self::Times);
        if self == Self::Values {
            for column in ["sum", "min", "avg", "max"] {
                // Writing to a string does not fail.
                let _ = write!(text, " {column:>13}");
            }
        }
        text
    }

    /// Returns the same columns of a row.
    pub fn row(self, sums: &Sums) -> String {
        let mut row = columns(&sums.times, self == Self::Times);
        if self == Self::Values {
            let values = &sums.values;
            for column in [
                text(Some(values.sum)),
                text(values.min),
                values.average(),
                text(values.max),
            ] {
                let _ = write!(row, " {column:>13}");
            }
        }
        row
    }
}

/// Returns a histogram with a bar for each row: its least number, its greatest, and a count.
pub(super) fn bars(rows: &[(String, String, u64)]) -> String {
    let most = rows.iter().map(|(_, _, count)| *count).max().unwrap_or(0);
    let mut text = String::new();
    for (from, to, count) in rows {
        let width = u128::from(*count) * u128::try_from(BAR).unwrap_or(0);
        let width = width.div_ceil(u128::from(most.max(1)));
        let bar = "#".repeat(usize::try_from(width).unwrap_or(BAR));
        let line = format!("{from:>12} - {to:<12} {count:>10}  {bar}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(numbers: &[i128]) -> Values {
        let mut values = Values::default();
        for number in numbers {
            values.add(Some(*number));
        }
        values
    }

    #[test]
    fn figures() {
        let mut sums = Sums::default();
        for value in [Some(3), Some(-8), None, Some(i128::from(u64::MAX))] {
            sums.add_value(value);
        }
        let heads = "      hits           sum           min           avg           max";
        assert_eq!(Columns::Values.heads(), heads);
        let row = Columns::Values.row(&sums);
        let row: Vec<_> = row.split_whitespace().collect();
        let max = "18446744073709551615";
        assert_eq!(
            row,
            [
                "4",
                "18446744073709551610",
                "-8",
                "6148914691236517203.3",
                max
            ]
        );
        assert_eq!((sums.values.count, sums.values.unread), (3, 1));
        let json = serde_json::to_value(sums.values.figures(true)).unwrap();
        assert_eq!(
            (&json["sum"], &json["min"]),
            (&json!(18446744073709551610_u64), &json!(-8))
        );
        assert_eq!(
            json["histogram"][0],
            json!({ "from": -8, "to": -8, "hits": 1 })
        );
        sums.add_value(Some(9));
        let json = serde_json::to_value(sums.values.figures(false)).unwrap();
        assert_eq!(
            (&json["sum"], json.get("histogram")),
            (&json!("18446744073709551619"), None)
        );
        let none = Columns::Values.row(&Sums::default());
        assert!(
            none.split_whitespace().eq(["0", "0", "-", "-", "-"]),
            "{none}"
        );
        assert_eq!(values(&[-1, 0]).average(), "-0.5");
    }

    #[test]
    fn recent_values() {
        let before = values(&[5, 7]);
        let mut now = before.clone();
        now.merge(&values(&[3, 6]));
        let recent = now.since(&before);
        assert_eq!((recent.count, recent.sum), (2, 9));
        // The greatest of these two is not the greatest of all.
        assert_eq!((recent.min, recent.max), (Some(3), None));
        assert_eq!(recent.classes, BTreeMap::from([(3, 1), (6, 1)]));
        assert_eq!(before.since(&Values::default()), before);
        // Sums of a kernel that knows no extremes.
        let sum = Values {
            count: 2,
            sum: 4,
            ..Values::default()
        };
        now.merge(&sum);
        assert_eq!((now.min, now.max, now.sum), (None, None, 25));
    }

    #[test]
    fn histograms() {
        let near = values(&[1003, 1003, 960, 1100, -3]);
        assert_eq!(near.rows_of(3)[..2], [(-3, -3, 1), (-2, -2, 0)]);
        let near = values(&[1003, 1003, 960, 1100]);
        assert_eq!(near.rows(), [(960, 1023, 3), (1024, 1151, 1)]);
        // Wide ones have a row for each power of two.
        let wide = values(&[-5, 0, 70_000]);
        let rows = wide.rows();
        assert_eq!(
            rows[..4],
            [(-7, -4, 1), (-3, -2, 0), (-1, -1, 0), (0, 0, 1)]
        );
        assert_eq!(rows.last(), Some(&(65_536, 131_071, 1)));
        assert!(
            wide.bars()
                .starts_with("          -7 - -4                    1  ####")
        );
        assert_eq!(values(&[]).bars(), "");
        let ends = values(&[i128::from(i64::MIN), i128::from(u64::MAX)]);
        assert_eq!(ends.rows()[0].0, i128::from(i64::MIN) * 2 + 1);
        assert_eq!(ends.rows().last().unwrap().1, i128::from(u64::MAX));
    }

    proptest! {
        /// Rows have no gaps and overlap nowhere, and each value is in one.
        #[test]
        fn each_value_has_a_row(
            numbers in proptest::collection::vec(any::<i64>().prop_map(i128::from), 1..40),
            bits in 0_u32..=3,
        ) {
            let rows = values(&numbers).rows_of(bits);
            for pair in rows.windows(2) {
                prop_assert_eq!(pair[0].1 + 1, pair[1].0);
            }
            for (from, to, count) in rows {
                let found = numbers.iter().filter(|number| (from..=to).contains(number));
                prop_assert_eq!(found.count(), usize::try_from(count).unwrap());
            }
        }
    }
}
