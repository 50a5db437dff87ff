// SPDX-License-Identifier: GPL-2.0

//! Numbers of probes.

/// Returns the free number that has been unused for the longest time: the next one after `last`.
/// Numbers go round in a circle, and 0 is none.
///
/// `start` was the last number before the probes that are being added. The numbers from there to
/// `last` are claimed, although `is_used` may not know them yet.
pub fn next_free(start: u16, last: u16, is_used: impl Fn(u16) -> bool) -> Option<u16> {
    let claimed = last.wrapping_sub(start);
    (0..=u16::MAX - claimed)
        .map(|n| last.wrapping_add(n).wrapping_add(1))
        .find(|&number| number != 0 && !is_used(number))
}

#[cfg(test)]
mod tests {
    use super::next_free;

    #[test]
    fn in_a_circle() {
        assert_eq!(next_free(0, 0, |_| false), Some(1));
        assert_eq!(next_free(7, 7, |number| number < 12), Some(12));
        assert_eq!(next_free(u16::MAX, u16::MAX, |_| false), Some(1));
        // Only the number of a probe that was the last one is free.
        assert_eq!(next_free(9, 9, |number| number != 9), Some(9));
        assert_eq!(next_free(9, 9, |_| true), None);
    }

    /// Five numbers are free: one write that adds more probes gets each of them once.
    #[test]
    fn no_number_twice() {
        let is_used = |number| !(3..8).contains(&number);
        let start = 65_000;
        let (mut last, mut got) = (start, Vec::new());
        while let Some(number) = next_free(start, last, is_used) {
            got.push(number);
            last = number;
        }
        assert_eq!(got, [3, 4, 5, 6, 7]);
    }

    /// The claimed numbers 65535, 1 and 2 lie on both sides of 0. All other numbers are used.
    #[test]
    fn claimed_numbers_beyond_zero_are_not_free() {
        let is_used = |number| (3..u16::MAX).contains(&number);
        assert_eq!(next_free(u16::MAX - 1, 2, is_used), None);
        assert_eq!(next_free(u16::MAX - 1, 1, is_used), Some(2));
    }
}
