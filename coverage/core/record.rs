// SPDX-License-Identifier: GPL-2.0

//! A write to the file `blocks`: `struct ferrotrace_coverage_places`.

/// Maximum length of a write, in bytes: `FERROTRACE_COVERAGE_WRITE_MAX`.
pub const WRITE_MAX: usize = 1 << 20;
/// Maximum number of places of a session: `FERROTRACE_COVERAGE_PLACES_MAX`.
pub const PLACES_MAX: usize = 1 << 22;

/// Length of the structure in bytes, without its offsets.
const HEADER: usize = 16;

/// A write with checked length and order.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    base: usize,
    offsets: &'a [u8],
}

impl<'a> Record<'a> {
    /// Parses a write. Returns `None` if the length does not fit the number of places, if there is
    /// no place, if a flag is set, or if the offsets are not in ascending order or go beyond the
    /// last address.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, offsets) = bytes.split_at_checked(HEADER)?;
        let word = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let (count, flags) = (word(8)?, word(12)?);
        // An address has 64 bits.
        let base = u64::from_le_bytes(*header.first_chunk()?) as usize;
        if count == 0 || flags != 0 || offsets.len() != (count as usize).checked_mul(4)? {
            return None;
        }
        let record = Self { base, offsets };
        let is_ascending = record.offsets().is_sorted_by(|one, next| one < next);
        let last = record.offsets().next_back()?;
        base.checked_add(last as usize)?;
        is_ascending.then_some(record)
    }

    /// Returns the base of the offsets.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Returns the number of places.
    pub fn count(&self) -> usize {
        self.offsets.len() / 4
    }

    /// Returns the addresses of the first and of the last place.
    pub fn bounds(&self) -> (usize, usize) {
        let mut offsets = self.offsets();
        let first = offsets.next().unwrap_or(0);
        let last = offsets.next_back().unwrap_or(first);
        let address = |offset: u32| self.base.wrapping_add(offset as usize);
        (address(first), address(last))
    }

    /// Returns the offsets.
    pub fn offsets(&self) -> impl DoubleEndedIterator<Item = u32> + 'a {
        self.offsets
            .chunks_exact(4)
            .filter_map(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(base: u64, count: u32, flags: u32, offsets: &[u32]) -> Vec<u8> {
        let mut bytes = base.to_le_bytes().to_vec();
        for word in [count, flags].iter().chain(offsets) {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn accepted() {
        let bytes = bytes(0xffff_ffff_8100_0000, 3, 0, &[0, 4, 9]);
        let record = Record::parse(&bytes).unwrap();
        assert_eq!(record.base(), 0xffff_ffff_8100_0000);
        assert_eq!(record.count(), 3);
        assert_eq!(
            record.bounds(),
            (0xffff_ffff_8100_0000, 0xffff_ffff_8100_0009)
        );
        assert_eq!(record.offsets().collect::<Vec<_>>(), [0, 4, 9]);
    }

    #[test]
    fn refused() {
        for bytes in [
            Vec::new(),
            bytes(1, 1, 0, &[])[..15].to_vec(),
            bytes(1, 0, 0, &[]),
            bytes(1, 2, 0, &[1]),
            bytes(1, 1, 0, &[1, 2]),
            bytes(1, 1, 1, &[1]),
            bytes(1, u32::MAX, 0, &[1]),
            bytes(1, 2, 0, &[2, 2]),
            bytes(1, 2, 0, &[2, 1]),
            bytes(u64::MAX, 1, 0, &[1]),
        ] {
            assert!(Record::parse(&bytes).is_none(), "{bytes:?}");
        }
    }
}
