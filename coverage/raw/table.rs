// SPDX-License-Identifier: GPL-2.0

//! All places of a session.
//!
//! Contexts: process; looking up: any, NMI included.

use ferro_coverage_core::PLACES_MAX;
use kernel::prelude::*;

use super::segment::Segment;
use super::segment::Totals;
use super::text::TextGuard;

/// Segments with ranges that do not overlap.
///
/// # Invariants
///
/// `sorted` has the index of each segment, in the order of their addresses.
pub(crate) struct Table {
    segments: KVVec<Segment>,
    sorted: KVVec<u32>,
    places: usize,
}

/// Reason why a segment is not added.
pub(crate) enum AddError {
    /// It overlaps another one.
    Overlaps,
    /// There would be too many places.
    TooMany,
    /// There is no memory.
    NoMemory,
}

impl Table {
    /// Makes an empty table.
    pub(crate) const fn new() -> Self {
        Self {
            segments: KVVec::new(),
            sorted: KVVec::new(),
            places: 0,
        }
    }

    /// Returns the segments in the order in which they were added.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the number of sorted segments that begin at or before an address.
    #[inline]
    fn rank(&self, addr: usize) -> usize {
        self.sorted.partition_point(|index| {
            let segment = self.segments.get(*index as usize);
            segment.is_some_and(|segment| segment.bounds().0 <= addr)
        })
    }

    /// Returns the last segment that begins at or before an address.
    #[inline]
    fn at_or_before(&self, addr: usize) -> Option<&Segment> {
        let index = self.sorted.get(self.rank(addr).checked_sub(1)?)?;
        self.segments.get(*index as usize)
    }

    /// Returns the segment and the index of the accepted place at an address, with its original
    /// byte.
    #[inline]
    pub(super) fn find(&self, addr: usize) -> Option<(&Segment, usize, u8)> {
        let segment = self.at_or_before(addr)?;
        let (index, original) = segment.find(addr)?;
        Some((segment, index, original))
    }

    /// Returns an error if places from `first` to `last` cannot be added.
    pub(crate) fn check(&self, first: usize, last: usize, count: usize) -> Result<(), AddError> {
        let before = self.at_or_before(last);
        if before.is_some_and(|segment| segment.bounds().1 >= first) {
            return Err(AddError::Overlaps);
        }
        match self.places.checked_add(count) {
            Some(places) if places <= PLACES_MAX => Ok(()),
            _ => Err(AddError::TooMany),
        }
    }

    /// Adds a segment that [`Table::check`] allows.
    pub(crate) fn add(&mut self, segment: Segment) -> Result<(), AddError> {
        let (first, last) = segment.bounds();
        self.check(first, last, segment.len())?;
        let places = self.places.wrapping_add(segment.len());
        let rank = self.rank(first);
        let index = u32::try_from(self.segments.len()).map_err(|_| AddError::TooMany)?;
        self.sorted
            .reserve(1, GFP_KERNEL)
            .map_err(|_| AddError::NoMemory)?;
        let added = self.segments.push(segment, GFP_KERNEL);
        added.map_err(|_| AddError::NoMemory)?;
        // Does not fail: there is room, and the rank is not beyond the end.
        let inserted = self.sorted.push(index, GFP_KERNEL);
        inserted.map_err(|_| AddError::NoMemory)?;
        if let Some(moved) = self.sorted.get_mut(rank..) {
            moved.rotate_right(1);
        }
        self.places = places;
        Ok(())
    }

    /// Removes the hit breakpoints of the queued pages. Returns true if there were some.
    pub(super) fn take_hits(&self, lock: &mut TextGuard) -> bool {
        let mut is_changed = false;
        for segment in &self.segments {
            is_changed |= segment.take_hits(lock);
        }
        is_changed
    }

    /// Forgets the hits.
    pub(crate) fn forget_hits(&self) {
        for segment in &self.segments {
            segment.forget_hits();
        }
    }

    /// Adds up the states of all places.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for segment in &self.segments {
            segment.count(&mut totals);
        }
        totals
    }
}
