// SPDX-License-Identifier: GPL-2.0

//! Ranges of an object's counters, for copying or resetting all of them at once.
//!
//! Contexts: process.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::owner::Access;
use super::owner::Owner;

/// Adjacent counters.
#[derive(Clone, Copy)]
struct CounterRange {
    first: *mut u64,
    count: u32,
}

/// All counters of an object, in order.
///
/// # Invariants
///
/// The counters of each range are words in writable data of the owner.
pub(super) struct CounterRanges {
    owner: Arc<Owner>,
    /// Address from which the first range is measured.
    base: u64,
    /// Two bytes per range: the distance from the end of the previous range in words (`i8`), and
    /// the number of words (`u8`). If either does not fit, the second byte is 0, and 4 bytes each
    /// follow.
    ranges: KVVec<u8>,
    count: u32,
    /// Some counters are lists, which a file has in another form.
    pub(super) has_lists: bool,
}

/// Builder for [`CounterRanges`].
pub(super) struct Builder {
    ranges: CounterRanges,
    /// The range that is not yet written: its address and its number of words.
    last: (u64, u32),
    /// End of the last written range.
    end: u64,
}

impl Builder {
    /// Starts an empty list for an owner. `base` is an address near the counters.
    pub(super) fn new(owner: Arc<Owner>, base: u64) -> Self {
        let base = base & !7;
        Self {
            ranges: CounterRanges {
                owner,
                base,
                ranges: KVVec::new(),
                count: 0,
                has_lists: false,
            },
            last: (0, 0),
            end: base,
        }
    }

    /// Appends counters.
    ///
    /// Errors: -EFAULT if they are not in data of the owner, -ERANGE if there are too many or they
    /// are too far away, -ENOMEM.
    pub(super) fn add(&mut self, access: &Access<'_>, address: u64, count: u32) -> Result {
        if count == 0 {
            return Ok(());
        }
        if !access.is_of(&self.ranges.owner) || !access.has_counters(address, count) {
            return Err(EFAULT);
        }
        self.ranges.count = self.ranges.count.checked_add(count).ok_or(ERANGE)?;
        let (first, words) = self.last;
        if end_of(first, words) == address {
            // At most `ranges.count`.
            self.last.1 = words.saturating_add(count);
            return Ok(());
        }
        self.write_last()?;
        self.last = (address, count);
        Ok(())
    }

    /// Marks the object as having lists.
    pub(super) fn has_lists(&mut self) {
        self.ranges.has_lists = true;
    }

    fn write_last(&mut self) -> Result {
        let (first, words) = self.last;
        if words == 0 {
            return Ok(());
        }
        // Not `cast_signed()`, which the oldest supported compiler lacks.
        let distance = isize::from_ne_bytes(first.wrapping_sub(self.end).to_ne_bytes()) / 8;
        let flags = GFP_KERNEL | __GFP_NOWARN;
        let ranges = &mut self.ranges.ranges;
        // INVARIANT: `add()` has checked that these are words in writable data of the owner. The
        // encoding written here describes exactly these words.
        match (i8::try_from(distance), u8::try_from(words)) {
            (Ok(distance), Ok(words)) => {
                let [distance] = distance.to_ne_bytes();
                ranges.extend_from_slice(&[distance, words], flags)?;
            }
            _ => {
                ranges.reserve(LARGE, flags)?;
                ranges.extend_from_slice(&[0, 0], flags)?;
                let distance = i32::try_from(distance).map_err(|_| ERANGE)?;
                ranges.extend_from_slice(&distance.to_le_bytes(), flags)?;
                ranges.extend_from_slice(&words.to_le_bytes(), flags)?;
            }
        }
        self.end = end_of(first, words);
        Ok(())
    }

    /// Returns all added ranges. Errors: -ERANGE, -ENOMEM.
    pub(super) fn finish(mut self) -> Result<CounterRanges> {
        self.write_last()?;
        // Shrinks the vector if memory allows.
        let flags = GFP_KERNEL | __GFP_NOWARN;
        let written = &self.ranges.ranges;
        if let Ok(mut exact) = KVVec::with_capacity(written.len(), flags) {
            if exact.extend_from_slice(written, flags).is_ok() {
                self.ranges.ranges = exact;
            }
        }
        Ok(self.ranges)
    }
}

/// Length of the encoding of a range that does not fit into two bytes.
const LARGE: usize = 10;

#[inline(always)]
fn end_of(first: u64, words: u32) -> u64 {
    first.wrapping_add(u64::from(words).wrapping_mul(8))
}

/// Iterator over ranges.
struct Iter<'s> {
    rest: &'s [u8],
    /// End of the previous range.
    end: u64,
}

/// Decodes a long range; returns its distance, its word count and the remaining bytes.
#[cold]
#[inline(never)]
fn large(bytes: &[u8]) -> Option<(i64, u32, &[u8])> {
    let (distance, rest) = bytes.get(2..)?.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let (distance, count) = (i32::from_le_bytes(*distance), u32::from_le_bytes(*count));
    Some((distance.into(), count, rest))
}

impl Iterator for Iter<'_> {
    type Item = CounterRange;

    #[inline(always)]
    fn next(&mut self) -> Option<CounterRange> {
        let (distance, count, rest) = match self.rest {
            // The short form, which nearly all ranges have.
            [distance, count, rest @ ..] if *count != 0 => {
                let distance = i8::from_ne_bytes([*distance]);
                (i64::from(distance), u32::from(*count), rest)
            }
            bytes => large(bytes)?,
        };
        self.rest = rest;
        let first = (self.end).wrapping_add_signed(distance.wrapping_mul(8));
        self.end = end_of(first, count);
        Some(CounterRange {
            first: first as usize as *mut u64,
            count,
        })
    }
}

impl CounterRanges {
    /// Returns the owner of the counters.
    pub(super) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.ranges,
            end: self.base,
        }
    }

    /// Appends all counters to `to`. Errors: -ENODEV if `access` is another owner's, -ENOMEM.
    pub(super) fn copy(&self, access: &Access<'_>, to: &mut KVVec<u64>) -> Result {
        if !access.is_of(&self.owner) {
            return Err(ENODEV);
        }
        let count = self.count as usize;
        to.reserve(count, GFP_KERNEL | __GFP_NOWARN)?;
        let mut at = to.spare_capacity_mut().as_mut_ptr().cast::<u64>();
        for range in self.iter() {
            let mut from = range.first.cast_const();
            let mut left = range.count;
            // SAFETY: By the type invariant these are words in data of the owner, which stay while
            // `access` exists. They are read one by one and volatile, as other code may write at
            // the same time. There is room for `count` words, the sum of all ranges.
            unsafe {
                while left >= 4 {
                    at.write(from.read_volatile());
                    at.add(1).write(from.add(1).read_volatile());
                    at.add(2).write(from.add(2).read_volatile());
                    at.add(3).write(from.add(3).read_volatile());
                    (at, from) = (at.add(4), from.add(4));
                    left -= 4;
                }
                while left != 0 {
                    at.write(from.read_volatile());
                    (at, from) = (at.add(1), from.add(1));
                    left -= 1;
                }
            }
        }
        // SAFETY: `count` words have been written into the reserved room.
        unsafe { to.inc_len(count) };
        Ok(())
    }

    /// Sets all counters to 0 if `access` is their owner's.
    pub(super) fn zero(&self, access: &Access<'_>) {
        if !access.is_of(&self.owner) {
            return;
        }
        for range in self.iter() {
            let first = range.first;
            // SAFETY: By the type invariant these are words in writable data of the owner, which
            // stay while `access` exists. The instruction writes them one by one; code that counts
            // at the same time does so with single instructions, too.
            unsafe {
                core::arch::asm!(
                    "rep stosq",
                    inout("rcx") u64::from(range.count) => _,
                    inout("rdi") first => _,
                    in("rax") 0_u64,
                    options(nostack, preserves_flags)
                );
            }
        }
    }
}
