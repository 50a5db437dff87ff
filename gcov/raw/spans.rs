// SPDX-License-Identifier: GPL-2.0

//! Where an object's counters are, so that all of them can be copied or reset at once.
//!
//! Contexts: process.

use kernel::prelude::*;

use super::home::Access;
use super::home::HomeId;

/// Counters next to each other.
#[derive(Clone, Copy)]
struct Span {
    /// How many words after the base the first is; before it, if the upper half of all numbers.
    offset: u32,
    count: u32,
}

/// All counters of an object, in order.
///
/// # Invariants
///
/// The counters of each span are words in data of the home that can be written.
pub(super) struct Spans {
    home: HomeId,
    base: u64,
    spans: KVVec<Span>,
    count: usize,
    /// Some are lists, of which a file has something else.
    pub(super) has_lists: bool,
}

impl Spans {
    /// None yet, of the home of `access`; `base` is somewhere near them.
    pub(super) fn new(access: &Access<'_>, base: u64) -> Self {
        Self {
            home: access.home_id(),
            base,
            spans: KVVec::new(),
            count: 0,
            has_lists: false,
        }
    }

    /// Adds counters after the others.
    ///
    /// Errors: -EFAULT if they are not in data of the home, -ERANGE if they are too far away, -ENOMEM.
    pub(super) fn add(&mut self, access: &Access<'_>, address: u64, count: u32) -> Result {
        if count == 0 {
            return Ok(());
        }
        if access.home_id() != self.home || !access.has_counters(address, count) {
            return Err(EFAULT);
        }
        let distance = address.wrapping_sub(self.base).cast_signed();
        let offset = i32::try_from(distance / 8).map_err(|_| ERANGE)?;
        if distance % 8 != 0 {
            return Err(EFAULT);
        }
        let offset = offset.cast_unsigned();
        self.count = self.count.checked_add(count as usize).ok_or(ERANGE)?;
        if let Some(last) = self.spans.last_mut() {
            let sum = last.count.checked_add(count);
            if let Some(sum) = sum.filter(|_| last.offset.wrapping_add(last.count) == offset) {
                last.count = sum;
                return Ok(());
            }
        }
        // INVARIANT: `access` says so.
        self.spans
            .push(Span { offset, count }, GFP_KERNEL | __GFP_NOWARN)?;
        Ok(())
    }

    /// Gives back what was taken for more.
    pub(super) fn finish(&mut self) {
        // Without memory for a smaller copy the larger one stays.
        let _ = self.spans.shrink_to(0, GFP_KERNEL | __GFP_NOWARN);
    }

    fn first(&self, span: Span) -> *mut u64 {
        let distance = i64::from(span.offset.cast_signed()) * 8;
        self.base.wrapping_add_signed(distance) as usize as *mut u64
    }

    /// Copies all counters to the end of `to`. Errors: -ENODEV if `access` is another home's, -ENOMEM.
    pub(super) fn copy(&self, access: &Access<'_>, to: &mut KVVec<u64>) -> Result {
        if access.home_id() != self.home {
            return Err(ENODEV);
        }
        to.reserve(self.count, GFP_KERNEL | __GFP_NOWARN)?;
        let mut at = to.spare_capacity_mut().as_mut_ptr().cast::<u64>();
        for span in &self.spans {
            let mut from = self.first(*span).cast_const();
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
        unsafe { to.inc_len(self.count) };
        Ok(())
    }

    /// Sets all counters to 0, if `access` is its home's.
    pub(super) fn zero(&self, access: &Access<'_>) {
        if access.home_id() != self.home {
            return;
        }
        for span in &self.spans {
            let first = self.first(*span);
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
