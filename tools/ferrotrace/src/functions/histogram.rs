// SPDX-License-Identifier: GPL-2.0

//! How long calls took, in classes: eight for each power of two.

#![deny(unsafe_code)]

use ferro_core::histogram::class;
use ferro_core::histogram::end;

/// Numbers by classes, whose ends differ by an eighth at most.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// As many as there are numbers for.
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        self.add_to_class(class(value), 1);
    }

    /// Adds that many numbers of a class.
    pub(crate) fn add_to_class(&mut self, class: usize, count: u64) {
        if class >= self.counts.len() {
            self.counts.resize(class.saturating_add(1), 0);
        }
        if let Some(sum) = self.counts.get_mut(class) {
            *sum += count;
            self.total += count;
        }
    }

    /// Adds all numbers of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (class, count) in other.counts.iter().enumerate() {
            self.add_to_class(class, *count);
        }
    }

    /// Returns the numbers that have been added since `before` was a copy of this.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut recent = Self::default();
        for (class, count) in self.counts.iter().enumerate() {
            let old = before.counts.get(class).copied().unwrap_or(0);
            if *count > old {
                recent.add_to_class(class, count - old);
            }
        }
        recent
    }

    /// How many numbers there are between two powers of two: the least that it could be, the greatest, and the count, for all
    /// powers from the first to the last that has any.
    pub fn powers(&self) -> Vec<(u64, u64, u64)> {
        let mut all: Vec<(u64, u64, u64)> = Vec::new();
        for (class, count) in self.counts.iter().enumerate() {
            let value = end(class);
            let first: u64 = match value.checked_ilog2() {
                None => 0,
                Some(power) => 1 << power,
            };
            let last = first.saturating_sub(1).saturating_add(first);
            match all.last_mut() {
                Some((begin, _, sum)) if *begin == first => *sum += count,
                None if *count == 0 => (),
                _ => all.push((first, last, *count)),
            }
        }
        while all.last().is_some_and(|(_, _, count)| *count == 0) {
            all.pop();
        }
        all
    }

    /// The end of the class that the number is in which that many hundredths of all do not exceed; 0 if there are none.
    pub fn percentile(&self, hundredths: u64) -> u64 {
        let wanted = (u128::from(self.total) * u128::from(hundredths)).div_ceil(100);
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted && seen > 0 {
                return end(class);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(99), 0);
        for value in 1..=100 {
            histogram.add(value);
        }
        assert!((99..=111).contains(&histogram.percentile(99)));
        assert!((50..=56).contains(&histogram.percentile(50)));
        assert!(histogram.percentile(100) >= 100);
        let mut one = Histogram::default();
        one.add(7);
        assert_eq!((one.percentile(1), one.percentile(100)), (7, 7));
    }

    #[test]
    fn powers() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.powers(), []);
        for value in [5, 7, 8, 40, 63, 32] {
            histogram.add(value);
        }
        assert_eq!(
            histogram.powers(),
            [(4, 7, 2), (8, 15, 1), (16, 31, 0), (32, 63, 3)]
        );
        histogram.add(0);
        histogram.add(1);
        assert_eq!(histogram.powers()[..3], [(0, 0, 1), (1, 1, 1), (2, 3, 0)]);
        let mut last = Histogram::default();
        last.add(u64::MAX);
        assert_eq!(last.powers(), [(1 << 63, u64::MAX, 1)]);
    }
}
