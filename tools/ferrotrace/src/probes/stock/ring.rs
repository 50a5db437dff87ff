// SPDX-License-Identifier: GPL-2.0

//! The events in a page of the kernel's ring buffer, as `trace_pipe_raw` gives them.

#![deny(unsafe_code)]

/// Bytes before the events: the time of the first one, and how many bytes of events there are.
const HEAD: usize = 16;

/// Bits of the second word that hold the number of bytes; flags are above.
const LEN_MASK: u64 = (1 << 20) - 1;

/// Set in the second word if events are missing before those of the page.
const MISSED: u64 = 1 << 31;

/// Types of entries. The others are events whose length is that many words.
const LONG: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of a time in an entry's first word.
const DELTA_BITS: u32 = 27;

/// A stamp has no more bits than this; those above are as they were.
const STAMP_BITS: u32 = 59;

/// Returns the time up to which events before those of a page are missing, if any are.
pub fn lost_until(page: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_le_bytes(*page.get(at..)?.first_chunk()?));
    (word(8)? & MISSED != 0).then(|| word(0))?
}

/// Gives `to` the events of a page with their times, in ns of the buffer's clock. What is not understood ends it.
pub fn events(page: &[u8], mut to: impl FnMut(u64, &[u8])) {
    let word = |at: usize| Some(u64::from_le_bytes(*page.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u32::from_le_bytes(*page.get(at..)?.first_chunk()?));
    let mut walk = || {
        let mut time = word(0)?;
        let len = usize::try_from(word(8)? & LEN_MASK).ok()?;
        let end = HEAD.checked_add(len)?.min(page.len());
        let mut at = HEAD;
        while at < end {
            let first = half(at)?;
            let (ty, delta) = (first & 0x1f, u64::from(first >> 5));
            let second = half(at + 4);
            let far = |second: u32| delta + (u64::from(second) << DELTA_BITS);
            match ty {
                PADDING if delta == 0 => return None,
                PADDING => {
                    time = time.wrapping_add(delta);
                    at += 4 + usize::try_from(second?).ok()?;
                }
                TIME_EXTEND => {
                    time = time.wrapping_add(far(second?));
                    at += 8;
                }
                TIME_STAMP => {
                    time = (time >> STAMP_BITS << STAMP_BITS) | far(second?);
                    at += 8;
                }
                _ => {
                    time = time.wrapping_add(delta);
                    let (begin, len) = match ty {
                        // The length counts itself.
                        LONG => (at + 8, usize::try_from(second?).ok()?.checked_sub(4)?),
                        words => (at + 4, usize::try_from(words).ok()? * 4),
                    };
                    let next = begin.checked_add(len)?.checked_next_multiple_of(4)?;
                    to(time, page.get(begin..begin + len)?);
                    at = next;
                }
            }
        }
        Some(())
    };
    // A page that ends within an entry has no more.
    let _ = walk();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64, flags: u64, entries: &[&[u32]]) -> Vec<u8> {
        let words: Vec<u8> = entries
            .iter()
            .flat_map(|words| words.iter().flat_map(|word| word.to_le_bytes()))
            .collect();
        let len = u64::try_from(words.len()).unwrap();
        let mut page = time.to_le_bytes().to_vec();
        page.extend((len | flags).to_le_bytes());
        page.extend(words);
        page.resize(4096, 0xee);
        page
    }

    fn walk(page: &[u8]) -> Vec<(u64, usize, u8)> {
        let mut all = Vec::new();
        events(page, |time, data| all.push((time, data.len(), data[0])));
        all
    }

    #[test]
    fn all_kinds_of_entries() {
        let bytes = page(
            1000,
            1 << 31,
            &[
                &[(5 << 5) | 2, 0x11, 0],
                // 6 bytes in two words
                &[7 << 5, 10, 0x22, 0],
                &[(3 << 5) | TIME_EXTEND, 1],
                &[1, 0x33],
                // discarded: 8 bytes behind the first word
                &[(2 << 5) | PADDING, 8, 0],
                &[1, 0x44],
                &[(9 << 5) | TIME_STAMP, 2],
                &[(1 << 5) | 1, 0x55],
                &[PADDING, 0],
                &[1, 0x66],
            ],
        );
        let far = 1012 + 3 + (1 << 27);
        let stamp = 9 + (2 << 27);
        assert_eq!(
            walk(&bytes),
            [
                (1005, 8, 0x11),
                (1012, 6, 0x22),
                (far, 4, 0x33),
                (far + 2, 4, 0x44),
                (stamp + 1, 4, 0x55)
            ]
        );
    }

    #[test]
    fn what_is_missing() {
        assert_eq!(lost_until(&page(1000, 1 << 31, &[])), Some(1000));
        assert_eq!(lost_until(&page(1000, 1 << 30, &[])), None);
        assert_eq!(lost_until(&[0xff; 12]), None);
    }

    #[test]
    fn what_is_cut() {
        assert_eq!(walk(&page(0, 0, &[])), []);
        assert_eq!(walk(&[0; 12]), []);
        let bytes = page(1, 0, &[&[1, 0x11], &[28, 0x22]]);
        assert_eq!(walk(&bytes[..16 + 12]), [(1, 4, 0x11)]);
        assert_eq!(walk(&page(1, 0, &[&[0, 2]])), []);
    }
}
