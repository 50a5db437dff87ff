// SPDX-License-Identifier: GPL-2.0

//! Where an object's counters are, so that all of them can be copied or reset at once.
//!
//! Contexts: process.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::owner::Access;
use super::owner::Home;

/// Counters next to each other.
#[derive(Clone, Copy)]
struct Span {
    first: *mut u64,
    count: u32,
}

/// All counters of an object, in order.
///
/// # Invariants
///
/// The counters of each span are words in data of the home that can be written.
pub(super) struct Spans {
    home: Arc<Home>,
    /// What the first span is relative to.
    base: u64,
    /// For each span a byte that says how many words after the end of the previous one it begins, or before that, and one that says
    /// how many words it has. If one of these is too large, the second is 0, and 4 bytes each say so.
    spans: KVVec<u8>,
    count: u32,
    /// Some are lists, of which a file has something else.
    pub(super) has_lists: bool,
}

/// Makes [`Spans`].
pub(super) struct Builder {
    spans: Spans,
    /// Not in there yet: where it begins and how many words it has.
    last: (u64, u32),
    /// Where the last one that is in there ends.
    end: u64,
}

impl Builder {
    /// None yet, of a home; `base` is somewhere near them.
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

    /// Adds counters after the others.
    ///
    /// Errors: -EFAULT if they are not in data of the home, -ERANGE if there are too many or they are too far away, -ENOMEM.
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
            // No more than all of them are.
            self.last.1 = words.saturating_add(count);
            return Ok(());
        }
        self.write_last()?;
        self.last = (address, count);
        Ok(())
    }

    /// Some are lists.
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
        // INVARIANT: `add()` has checked that these are such words; what is written says so.
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

    /// All that have been added. Errors: -ERANGE, -ENOMEM.
    pub(super) fn finish(mut self) -> Result<Spans> {
        self.write_last()?;
        // As small as can be, or else as it is.
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

/// How long a span is that is too large for bytes.
const LARGE: usize = 10;

#[inline(always)]
fn end_of(first: u64, words: u32) -> u64 {
    first.wrapping_add(u64::from(words).wrapping_mul(8))
}

/// Goes through spans.
struct Iter<'s> {
    rest: &'s [u8],
    /// Where the last one ended.
    end: u64,
}

/// The numbers of a large span, and what is after them.
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
            // Nearly all.
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
    /// Whose they are.
    pub(super) fn home(&self) -> &Arc<Home> {
        &self.home
    }

    fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.spans,
            end: self.base,
        }
    }

    /// Copies all counters to the end of `to`. Errors: -ENODEV if `access` is another home's, -ENOMEM.
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
            // SAFETY: By the type invariant these are words in data of the home, which stay while there is `access`. They are read
            // one by one and volatile, as others may write meanwhile. There is room for `count` words, the sum of all spans.
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
        // SAFETY: So many have been written, into the room that is reserved.
        unsafe { to.inc_len(count) };
        Ok(())
    }

    /// Sets all counters to 0, if `access` is its home's.
    pub(super) fn zero(&self, access: &Access<'_>) {
        if !access.is_of(&self.home) {
            return;
        }
        for span in self.iter() {
            let first = span.first;
            // SAFETY: By the type invariant these are words in data of the home that can be written, which stay while there is
            // `access`. The instruction writes them one by one; whoever counts meanwhile does so with single instructions, too.
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
