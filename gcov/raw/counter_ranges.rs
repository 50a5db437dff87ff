// SPDX-License-Identifier: GPL-2.0

//! Ranges of an object's counters, for copying or resetting all of them at once.
//!
//! Contexts: process.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::owner::Access;
use super::owner::Home;

/// Adjacent counters.
#[derive(Clone, Copy)]
struct Span {
    first: *mut u64,
    count: u32,
}

/// All counters of an object, in order.
///
/// # Invariants
///
/// The counters of each span are words in writable data of the home.
pub(super) struct Spans {
    home: Arc<Home>,
    /// Address from which the first span is measured.
    base: u64,
    /// Two bytes per span: the distance from the end of the previous span in words (`i8`), and the
    /// number of words (`u8`). If either does not fit, the second byte is 0, and 4 bytes each
    /// follow.
    spans: KVVec<u8>,
    count: u32,
    /// Some counters are lists, which a file has in another form.
    pub(super) has_lists: bool,
}

/// Builder for [`Spans`].
pub(super) struct Builder {
    spans: Spans,
    /// The span that is not yet written: its address and its number of words.
    last: (u64, u32),
    /// End of the last written span.
    end: u64,
}

impl Builder {
    /// Starts an empty list for a home. `base` is an address near the counters.
    pub(super) fn new(home: Arc<Home>, base: u64) -> Self {
        let base = base & !7;
        Self {
            spans: Spans {
                home,
                base,
                spans: KVVec::new(),
                count: 0,
                has_lists: false,
            },
            last: (0, 0),
            end: base,
        }
    }

    /// Appends counters.
    ///
    /// Errors: -EFAULT if they are not in data of the home, -ERANGE if there are too many or they
    /// are too far away, -ENOMEM.
    pub(super) fn add(&mut self, access: &Access<'_>, address: u64, count: u32) -> Result {
        if count == 0 {
            return Ok(());
        }
        if !access.is_of(&self.spans.home) || !access.has_counters(address, count) {
            return Err(EFAULT);
        }
        self.spans.count = self.spans.count.checked_add(count).ok_or(ERANGE)?;
        let (first, words) = self.last;
        if end_of(first, words) == address {
            // At most `spans.count`.
            self.last.1 = words.saturating_add(count);
            return Ok(());
        }
        self.write_last()?;
        self.last = (address, count);
        Ok(())
    }

    /// Marks the object as having lists.
    pub(super) fn has_lists(&mut self) {
        self.spans.has_lists = true;
    }

    fn write_last(&mut self) -> Result {
        let (first, words) = self.last;
        if words == 0 {
            return Ok(());
        }
        // `cast_signed()` is newer than the oldest compiler that the kernel takes.
        let distance = isize::from_ne_bytes(first.wrapping_sub(self.end).to_ne_bytes()) / 8;
        let flags = GFP_KERNEL | __GFP_NOWARN;
        let spans = &mut self.spans.spans;
        // INVARIANT: `add()` has checked that these are such words; the encoding written here says
        // the same.
        match (i8::try_from(distance), u8::try_from(words)) {
            (Ok(distance), Ok(words)) => {
                let [distance] = distance.to_ne_bytes();
                spans.extend_from_slice(&[distance, words], flags)?;
            }
            _ => {
                spans.reserve(LARGE, flags)?;
                spans.extend_from_slice(&[0, 0], flags)?;
                let distance = i32::try_from(distance).map_err(|_| ERANGE)?;
                spans.extend_from_slice(&distance.to_le_bytes(), flags)?;
                spans.extend_from_slice(&words.to_le_bytes(), flags)?;
            }
        }
        self.end = end_of(first, words);
        Ok(())
    }

    /// Returns all added spans. Errors: -ERANGE, -ENOMEM.
    pub(super) fn finish(mut self) -> Result<Spans> {
        self.write_last()?;
        // Shrinks the vector if memory allows.
        let flags = GFP_KERNEL | __GFP_NOWARN;
        let written = &self.spans.spans;
        if let Ok(mut exact) = KVVec::with_capacity(written.len(), flags) {
            if exact.extend_from_slice(written, flags).is_ok() {
                self.spans.spans = exact;
            }
        }
        Ok(self.spans)
    }
}

/// Length of the encoding of a span that does not fit into two bytes.
const LARGE: usize = 10;

#[inline(always)]
fn end_of(first: u64, words: u32) -> u64 {
    first.wrapping_add(u64::from(words).wrapping_mul(8))
}

/// Iterator over spans.
struct Iter<'s> {
    rest: &'s [u8],
    /// End of the previous span.
    end: u64,
}

/// Decodes a long span; returns its distance, its word count and the remaining bytes.
#[cold]
#[inline(never)]
fn large(bytes: &[u8]) -> Option<(i64, u32, &[u8])> {
    let (distance, rest) = bytes.get(2..)?.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let (distance, count) = (i32::from_le_bytes(*distance), u32::from_le_bytes(*count));
    Some((distance.into(), count, rest))
}

impl Iterator for Iter<'_> {
    type Item = Span;

    #[inline(always)]
    fn next(&mut self) -> Option<Span> {
        let (distance, count, rest) = match self.rest {
            // Nearly all spans.
            [distance, count, rest @ ..] if *count != 0 => {
                let distance = i8::from_ne_bytes([*distance]);
                (i64::from(distance), u32::from(*count), rest)
            }
            bytes => large(bytes)?,
        };
        self.rest = rest;
        let first = (self.end).wrapping_add_signed(distance.wrapping_mul(8));
        self.end = end_of(first, count);
        Some(Span {
            first: first as usize as *mut u64,
            count,
        })
    }
}

impl Spans {
    /// Returns the home of the counters.
    pub(super) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.spans,
            end: self.base,
        }
    }

    /// Appends all counters to `to`. Errors: -ENODEV if `access` is another home's, -ENOMEM.
    pub(super) fn copy(&self, access: &Access<'_>, to: &mut KVVec<u64>) -> Result {
        if !access.is_of(&self.home) {
            return Err(ENODEV);
        }
        let count = self.count as usize;
        to.reserve(count, GFP_KERNEL | __GFP_NOWARN)?;
        let mut at = to.spare_capacity_mut().as_mut_ptr().cast::<u64>();
        for span in self.iter() {
            let mut from = span.first.cast_const();
            let mut left = span.count;
            // SAFETY: By the type invariant these are words in data of the home, which stay while
            // `access` exists. They are read one by one and volatile, as other code may write at
            // the same time. There is room for `count` words, the sum of all spans.
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

    /// Sets all counters to 0 if `access` is their home's.
    pub(super) fn zero(&self, access: &Access<'_>) {
        if !access.is_of(&self.home) {
            return;
        }
        for span in self.iter() {
            let first = span.first;
            // SAFETY: By the type invariant these are words in writable data of the home, which
            // stay while `access` exists. The instruction writes them one by one; code that counts
            // at the same time does so with single instructions, too.
            unsafe {
                core::arch::asm!(
                    "rep stosq",
                    inout("rcx") u64::from(span.count) => _,
                    inout("rdi") first => _,
                    in("rax") 0_u64,
                    options(nostack, preserves_flags)
                );
            }
        }
    }
}
