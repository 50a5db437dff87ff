// SPDX-License-Identifier: GPL-2.0

//! Classes of a log-linear histogram: eight for each power of two.
//!
//! Contexts: any, NMI included.

/// Classes for a power of two.
pub const STEPS: u64 = 8;

/// Bits of a number that choose between these.
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Each number below this has a class of its own.
pub const EXACT: u64 = STEPS * 2;

/// Number of classes.
pub const CLASSES: usize = class(u64::MAX) + 1;

/// Returns the class of a number. The numbers of a class differ by an eighth at most.
#[inline]
pub const fn class(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    // At least 4, as the number is at least 16.
    let power = value.ilog2();
    let step = (value >> (power - STEP_BITS)) % STEPS;
    (EXACT + (power - STEP_BITS - 1) as u64 * STEPS + step) as usize
}

/// Returns the greatest number of a class.
pub const fn end(class: usize) -> u64 {
    let class = class as u64;
    if class < EXACT {
        return class;
    }
    let power = (class - EXACT) / STEPS;
    let start = (STEPS + (class - EXACT) % STEPS) as u128;
    if power >= 64 {
        return u64::MAX;
    }
    let end = ((start + 1) << (power + 1)) - 1;
    if end > u64::MAX as u128 {
        return u64::MAX;
    }
    end as u64
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
        assert_eq!(end(CLASSES - 1), u64::MAX);
        assert_eq!(end(usize::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn no_class_is_wide(value in any::<u64>()) {
            let end = end(class(value));
            prop_assert!(end >= value && end - value <= value / STEPS);
            // The next number has another class.
            if end < u64::MAX {
                prop_assert_eq!(class(end + 1), class(end) + 1);
            }
        }
    }
}
