// SPDX-License-Identifier: GPL-2.0

//! Memory that was reserved by name on the kernel's command line, `reserve_mem=SIZE:ALIGN:NAME`.
//! Its contents survive a reboot.
//!
//! A user claims the memory first, so that no two users of Ferrotrace share it. Other users of the
//! kernel (`trace_instance=`, `ramoops`) know no claims; each needs a name of its own.
//!
//! Contexts: process; sleeps. Locks: the list of claims.

use crate::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use crate::static_mutex;
use crate::sync::mutex::StaticMutex;

type Range = (u64, usize);

static CLAIMS: StaticMutex<KVec<Range>> = static_mutex!(ferro_reserve_mem_mutex, KVec::new());

/// Reserved memory, which exists as long as the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    start: u64,
    bytes: usize,
}

impl Reserved {
    /// Finds the memory with this name on the command line.
    ///
    /// Errors: -ENXIO if there is none; -EINVAL if it does not start with a page, or is smaller
    /// than one.
    pub fn find(name: &CStr) -> Result<Self> {
        let (mut start, mut size) = (0, 0);
        // SAFETY: The name is a string, and both pointers are to local numbers.
        if !unsafe { bindings::ferro_reserve_mem_find(name.as_char_ptr(), &mut start, &mut size) } {
            return Err(ENXIO);
        }
        let page = u64::try_from(PAGE_SIZE)?;
        let bytes = usize::try_from(size - size % page)?;
        if start % page != 0 || bytes == 0 {
            return Err(EINVAL);
        }
        Ok(Self { start, bytes })
    }

    /// Returns the number of bytes, in whole pages.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns false: there is memory.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Claims a part, in whole pages.
    ///
    /// Errors: -EAGAIN while a part of it is in use; -EINVAL if it is not inside; -ENOMEM.
    pub(super) fn claim(&self, at: usize, bytes: usize) -> Result<Claim> {
        let end = at.checked_add(bytes).ok_or(EINVAL)?;
        if bytes == 0 || end > self.bytes || at % PAGE_SIZE != 0 || bytes % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        Claim::new((self.start + u64::try_from(at)?, bytes))
    }
}

/// The right to use a range of reserved memory, until it is dropped.
pub(super) struct Claim(Range);

fn overlap(a: &Range, b: &Range) -> bool {
    let end = |range: &Range| {
        range
            .0
            .saturating_add(u64::try_from(range.1).unwrap_or(u64::MAX))
    };
    a.0 < end(b) && b.0 < end(a)
}

impl Claim {
    /// Claims a range. Errors: -EAGAIN, -ENOMEM.
    fn new(range: Range) -> Result<Self> {
        let mut claims = CLAIMS.lock();
        if claims.iter().any(|other| overlap(other, &range)) {
            return Err(EAGAIN);
        }
        claims.push(range, GFP_KERNEL)?;
        Ok(Self(range))
    }

    /// Returns the start in physical memory, and the number of bytes.
    pub(super) fn range(&self) -> Range {
        self.0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMS.lock().retain(|other| *other != self.0);
    }
}
