// SPDX-License-Identifier: GPL-2.0

//! The arithmetic of positions in a fast buffer, and the walk from record to record.
//!
//! A position counts bytes since the buffer was created; the byte at position `p` is at `p & mask`.

#![deny(unsafe_code)]

use super::record::ALIGN;
use super::record::Header;

/// The sizes of a fast buffer.
///
/// # Invariants
///
/// Both are powers of two, `subbuf_size` at least 8 and at most `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    subbuf_size: u64,
    size: u64,
}

/// No record begins where one should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The position.
    pub position: u64,
    /// The bytes there, as a header.
    pub header: Header,
}

impl Sizes {
    /// The sizes, if such a buffer is possible.
    pub fn new(subbuf_size: u64, n_subbufs: u64) -> Option<Self> {
        let size = subbuf_size.checked_mul(n_subbufs)?;
        let possible =
            subbuf_size.is_power_of_two() && n_subbufs.is_power_of_two() && subbuf_size >= ALIGN;
        // INVARIANT: checked above; the product of two powers of two is a power of two.
        (possible && size <= 1 << 48).then_some(Self { subbuf_size, size })
    }

    /// Bytes of a sub-buffer.
    pub const fn subbuf_size(self) -> u64 {
        self.subbuf_size
    }

    /// Bytes of the buffer.
    pub const fn size(self) -> u64 {
        self.size
    }

    /// Sub-buffers.
    pub const fn n_subbufs(self) -> u64 {
        self.size / self.subbuf_size
    }

    /// Where `position` is in the data.
    pub const fn offset(self, position: u64) -> u64 {
        position & (self.size - 1)
    }

    /// Bytes from `position` to the end of its sub-buffer.
    pub const fn left(self, position: u64) -> u64 {
        self.subbuf_size - (position & (self.subbuf_size - 1))
    }

    /// The oldest position that is not overwritten when the next record goes to `produced`: the
    /// start of a sub-buffer.
    pub fn kept(self, produced: u64) -> u64 {
        let in_subbuf = self.subbuf_size - 1;
        let end = produced.saturating_add(in_subbuf) & !in_subbuf;
        end.saturating_sub(self.size)
    }

    /// Where one turn from `from` towards `to` ends: after about `most` bytes, where a record must
    /// begin.
    pub fn turn(self, from: u64, to: u64, most: u64) -> u64 {
        let in_subbuf = self.subbuf_size - 1;
        let far = from.saturating_add(most) & !in_subbuf;
        to.min(far.max(from.saturating_add(self.left(from))))
    }

    /// Goes through the records between `from` and `to`, which are starts of records, and counts
    /// those that are neither padding nor discarded.
    pub fn walk(
        self,
        from: u64,
        to: u64,
        header_at: impl Fn(u64) -> Header,
    ) -> Result<u64, BadRecord> {
        let mut records = 0;
        let mut position = from;
        while position < to {
            let end = to.min(position.saturating_add(self.left(position)));
            while position < end {
                let header = header_at(position);
                let size = header.size();
                if size > end - position {
                    return Err(BadRecord { position, header });
                }
                position += size;
                records += u64::from(!header.is_skipped());
            }
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn impossible_sizes_are_refused() {
        for (size, n) in [
            (0, 4),
            (4, 4),
            (4096, 0),
            (4096, 3),
            (5000, 4),
            (1 << 63, 2),
            (1 << 40, 1 << 9),
        ] {
            assert_eq!(Sizes::new(size, n), None, "{size} {n}");
        }
        let sizes = Sizes::new(4096, 4).unwrap();
        assert_eq!((sizes.size(), sizes.n_subbufs()), (16384, 4));
    }

    #[test]
    fn kept_is_what_the_header_file_says() {
        let sizes = Sizes::new(4096, 4).unwrap();
        for (produced, kept) in [
            (0, 0),
            (16384, 0),
            (16392, 4096),
            (20480, 4096),
            (20488, 8192),
        ] {
            assert_eq!(sizes.kept(produced), kept, "{produced}");
        }
    }

    #[test]
    fn a_record_that_crosses_a_boundary_is_none() {
        let sizes = Sizes::new(64, 2).unwrap();
        let header = |len| {
            move |_| Header {
                len,
                ty: 0,
                flags: 0,
            }
        };
        assert!(sizes.walk(0, 64, header(64)).is_err());
        assert!(sizes.walk(32, 64, header(32)).is_err());
        assert!(sizes.walk(0, 32, header(32)).is_err(), "beyond the end");
        assert!(sizes.walk(0, 64, header(u32::MAX)).is_err());
        assert_eq!(sizes.walk(64, 192, header(56)), Ok(2));
    }

    proptest! {
        /// Turns cover everything and end where records begin, and their records add up.
        #[test]
        fn turns_add_up(
            start in 0u64..20,
            lens in prop::collection::vec((0u32..50, 0u16..8), 0..40),
            most in 1u64..400,
        ) {
            let sizes = Sizes::new(64, 4).unwrap();
            let from = start * 64;
            let mut headers = BTreeMap::new();
            let mut position = from;
            for (len, flags) in lens {
                let mut header = Header { len, ty: 0, flags };
                if header.size() > sizes.left(position) {
                    let len = u32::try_from(sizes.left(position) - 8).unwrap();
                    header = Header { len, ty: 0, flags: Header::PADDING };
                }
                headers.insert(position, header);
                position += header.size();
            }
            let (mut at, mut records) = (from, 0);
            while at < position {
                let to = sizes.turn(at, position, most);
                prop_assert!(to > at && (to == position || to % 64 == 0));
                prop_assert!(to - at <= most.max(64));
                records += sizes.walk(at, to, |p| headers[&p]).unwrap();
                at = to;
            }
            let wanted = headers.values().filter(|h| !h.is_skipped()).count();
            prop_assert_eq!(records, u64::try_from(wanted).unwrap());
        }
    }
}
