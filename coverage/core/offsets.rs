// SPDX-License-Identifier: GPL-2.0

//! Sorted places of a record, and the places of a page.

use core::ops::Range;

/// Size of a page of text, in bytes.
pub const PAGE: usize = 4096;

/// Places as distances from a base, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Offsets<'a> {
    base: usize,
    offsets: &'a [u32],
}

impl<'a> Offsets<'a> {
    /// Wraps places, which are in ascending order.
    pub fn new(base: usize, offsets: &'a [u32]) -> Self {
        Self { base, offsets }
    }

    /// Returns the address of a place.
    pub fn address(&self, index: usize) -> Option<usize> {
        let offset = *self.offsets.get(index)?;
        Some(self.base.wrapping_add(offset as usize))
    }

    /// Returns the index of the first place at or after an address.
    pub fn first_from(&self, address: usize) -> usize {
        let Some(distance) = address.checked_sub(self.base) else {
            return 0;
        };
        self.offsets
            .partition_point(|offset| (*offset as usize) < distance)
    }

    /// Returns the index of the place at an address.
    #[inline]
    pub fn find(&self, address: usize) -> Option<usize> {
        let distance = u32::try_from(address.checked_sub(self.base)?).ok()?;
        self.offsets.binary_search(&distance).ok()
    }

    /// Returns the first page, and the number of pages up to the last place. Pages are
    /// counted from address 0.
    pub fn pages(&self) -> (usize, usize) {
        let last = self.offsets.len().checked_sub(1);
        match (self.address(0), last.and_then(|last| self.address(last))) {
            (Some(first), Some(last)) => {
                let page = first / PAGE;
                (page, (last / PAGE).saturating_sub(page).saturating_add(1))
            }
            _ => (0, 0),
        }
    }

    /// Returns the indices of the places in a page.
    pub fn in_page(&self, page: usize) -> Range<usize> {
        let start = page.wrapping_mul(PAGE);
        let end = match start.checked_add(PAGE) {
            Some(end) => self.first_from(end),
            None => self.offsets.len(),
        };
        self.first_from(start)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn find_and_pages(
            base in 0usize..1 << 20,
            places in proptest::collection::btree_set(0u32..200_000, 1..200),
            asked in proptest::collection::vec(0usize..1 << 21, 50),
        ) {
            let offsets: Vec<u32> = places.iter().copied().collect();
            let sorted = Offsets::new(base, &offsets);
            let addresses: Vec<usize> = offsets.iter().map(|o| base + *o as usize).collect();
            for address in asked.into_iter().chain(addresses.iter().copied()) {
                prop_assert_eq!(sorted.find(address), addresses.iter().position(|a| *a == address));
            }
            let (first, count) = sorted.pages();
            let mut seen = BTreeSet::new();
            for page in first..first + count {
                for index in sorted.in_page(page) {
                    prop_assert_eq!(addresses[index] / PAGE, page);
                    prop_assert!(seen.insert(index));
                }
            }
            prop_assert_eq!(seen.len(), addresses.len());
        }
    }

    #[test]
    fn empty() {
        let none = Offsets::new(5, &[]);
        assert_eq!(none.find(5), None);
        assert_eq!(none.pages(), (0, 0));
        assert_eq!(none.in_page(0), 0..0);
        let last = Offsets::new(usize::MAX - 10, &[1, 5]);
        assert_eq!(last.in_page(usize::MAX / PAGE), 0..2);
        assert_eq!(last.find(usize::MAX - 5), Some(1));
    }
}
