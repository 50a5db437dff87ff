// SPDX-License-Identifier: GPL-2.0

//! How long calls took, in classes: eight for each power of two.

#![deny(unsafe_code)]

/// Classes for a power of two.
const STEPS: u64 = 8;

/// Bits of a number that choose between these.
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Below this each number is a class of its own.
const EXACT: u64 = STEPS * 2;

/// Numbers by classes, whose ends differ by an eighth at most.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// As many as there are numbers for.
    counts: Vec<u64>,
    total: u64,
}

/// The class of a number.
fn class(value: u64) -> usize {
    let index = if value < EXACT {
        value
    } else {
        let power = value.ilog2();
        let step = (value >> (power - STEP_BITS)) % STEPS;
        EXACT + u64::from(power - STEP_BITS - 1) * STEPS + step
    };
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The greatest number of a class.
fn end(class: usize) -> u64 {
    let class = u64::try_from(class).unwrap_or(u64::MAX);
    if class < EXACT {
        return class;
    }
    let shift = u32::try_from((class - EXACT) / STEPS + 1).unwrap_or(u32::MAX);
    let start = u128::from(STEPS + (class - EXACT) % STEPS);
    let end = (start + 1)
        .checked_shl(shift)
        .map_or(u128::MAX, |end| end - 1);
    u64::try_from(end).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        let class = class(value);
        if class >= self.counts.len() {
            self.counts.resize(class + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(class) {
            *count += 1;
            self.total += 1;
        }
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes() {
        for value in 0..EXACT {
            assert_eq!(end(class(value)), value);
        }
        assert_eq!((class(16), class(17), class(18)), (16, 16, 17));
        assert_eq!((end(16), end(17)), (17, 19));
        assert_eq!(end(class(u64::MAX)), u64::MAX);
    }

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

    proptest! {
        #[test]
        fn no_class_is_wide(value in any::<u64>()) {
            let end = end(class(value));
            prop_assert!(end >= value && end - value <= value / STEPS);
            // What follows is another class.
            if end < u64::MAX {
                prop_assert_eq!(class(end + 1), class(end) + 1);
            }
        }
    }
}
