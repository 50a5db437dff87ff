// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel writes through a contiguous mapping and user space reads through its own.
//!
//! The memory changes behind the back of whoever looks at it, so it is never a `&[u8]`: it is
//! handed around as a [`MemRange`] and only ever copied.
//!
//! Contexts: allocation and freeing in process context, the rest anywhere.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::barrier;
use kernel::sync::Arc;

use crate::cpu::task::cond_resched;
use crate::cpu::task::cond_resched_killable;
use crate::mm::reserve_mem::Claim;

// RUST-KERNEL: `kernel::page` has single pages, and no mapping of several; ours until it has `vmap()`.
/// Pages, mapped contiguously.
///
/// # Invariants
///
/// `pages` holds the pages that this object owns a reference to, or that `source` keeps; `base` is their mapping.
pub struct PageBuf {
    pages: KVVec<*mut bindings::page>,
    base: NonNull<u8>,
    source: Source,
    /// Pages that have been given to page tables, so far.
    mapped: Atomic<usize>,
}

// SAFETY: The object owns its pages and their mapping, which every task sees: another one may give them up.
unsafe impl Send for PageBuf {}
// SAFETY: `mapped` is an atomic, and nothing else here changes; the bytes are only reached through raw pointers, whose users
// say in their `unsafe` blocks who else may use them.
unsafe impl Sync for PageBuf {}

/// Whose the pages are.
enum Source {
    /// This object's own, and the mapping as well.
    Allocated,
    /// Reserved memory, which nobody frees; the mapping is this object's.
    Reserved { _claim: Claim },
    /// Another object's, as well as the mapping.
    Part { _of: Arc<PageBuf> },
}

/// Frees what has been allocated so far, should a later step fail.
struct Pages(KVVec<*mut bindings::page>);

impl Drop for Pages {
    fn drop(&mut self) {
        for page in &self.0 {
            // SAFETY: The page comes from `ferro_alloc_page()`.
            unsafe { bindings::__free_pages(*page, 0) };
            cond_resched();
        }
    }
}

impl PageBuf {
    /// Allocates at least `bytes` bytes, in whole pages, zeroed. That may be gigabytes, and take long.
    ///
    /// Context: process; sleeps. Errors: -ENOMEM, -EINTR if the task is being killed, -EINVAL if `bytes` is 0 or
    /// too many.
    pub fn new(bytes: usize) -> Result<Self> {
        let count = bytes.div_ceil(PAGE_SIZE);
        let n_pages = u32::try_from(count).map_err(|_| EINVAL)?;
        if n_pages == 0 {
            return Err(EINVAL);
        }

        let mut pages = Pages(KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?);
        for _ in 0..count {
            cond_resched_killable()?;
            // SAFETY: No requirement.
            let page = NonNull::new(unsafe { bindings::ferro_alloc_page() }).ok_or(ENOMEM)?;
            pages.0.push(page.as_ptr(), GFP_KERNEL)?;
        }
        // SAFETY: `pages` holds `n_pages` pages, which outlive the mapping.
        let base = unsafe { bindings::ferro_vmap(pages.0.as_mut_ptr(), n_pages) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        // INVARIANT: All pages are allocated and mapped at `base`.
        Ok(Self {
            pages: core::mem::take(&mut pages.0),
            base,
            source: Source::Allocated,
            mapped: Atomic::new(0),
        })
    }

    /// Maps reserved memory, with whatever is in it.
    ///
    /// Context: process; sleeps. Errors: -ENOMEM, -EINVAL if it is not all there any more, -EAGAIN while user space has some of it from
    /// an earlier claim: in a pipe, or registered as a buffer, for which no file or mapping has to stay.
    pub(super) fn reserved(claim: Claim) -> Result<Self> {
        let (start, bytes) = claim.range();
        let count = bytes / PAGE_SIZE;
        let n_pages = u32::try_from(count).map_err(|_| EINVAL)?;
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        for at in (0..bytes).step_by(PAGE_SIZE) {
            // No overflow: the claim is on memory that there is.
            // SAFETY: No requirement.
            let page = unsafe { bindings::ferro_reserved_page(start + u64::try_from(at)?) };
            let page = NonNull::new(page).ok_or(EINVAL)?;
            // SAFETY: A page that the kernel reserved when it booted stays.
            if unsafe { bindings::ferro_reserved_page_busy(page.as_ptr()) } {
                return Err(EAGAIN);
            }
            pages.push(page.as_ptr(), GFP_KERNEL)?;
        }
        // SAFETY: `pages` holds `n_pages` pages. The kernel reserved them when it booted, for good.
        let base = unsafe { bindings::ferro_vmap(pages.as_mut_ptr(), n_pages) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        // INVARIANT: All pages are mapped at `base`; nobody frees them, and the claim keeps others off. Nobody has one from an earlier
        // claim, and none comes to have: whoever had the last mapping has given up the claim.
        Ok(Self {
            pages,
            base,
            source: Source::Reserved { _claim: claim },
            mapped: Atomic::new(0),
        })
    }

    /// A part of the memory, in whole pages, which keeps all of it.
    ///
    /// Context: process. Errors: -EINVAL unless it is inside and there is something in it, -ENOMEM.
    pub fn part(of: &Arc<Self>, start: usize, bytes: usize) -> Result<Self> {
        let range = of.range(start, bytes).filter(|range| !range.is_empty());
        let range = range.ok_or(EINVAL)?;
        if start % PAGE_SIZE != 0 || bytes % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let (first, count) = (start / PAGE_SIZE, bytes / PAGE_SIZE);
        let from = of.pages.get(first..).and_then(|pages| pages.get(..count));
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        for page in from.ok_or(EINVAL)? {
            pages.push(*page, GFP_KERNEL)?;
        }
        let base = range.start;
        // INVARIANT: These pages are mapped at `base`, and `of` keeps both.
        Ok(Self {
            pages,
            base,
            source: Source::Part { _of: of.clone() },
            mapped: Atomic::new(0),
        })
    }

    /// The word at a multiple of 8 bytes, if it is inside.
    ///
    /// Context: any.
    pub fn load(&self, at: usize) -> Option<u64> {
        let word = self.word(at)?;
        // SAFETY: `word()` has checked that it is in the memory, and aligned. Any bytes are a `u64`; others may be changing
        // them.
        Some(unsafe { word.as_ptr().read_volatile() })
    }

    /// Stores a word at a multiple of 8 bytes; false if it is not inside.
    ///
    /// Context: any.
    ///
    /// # Safety
    ///
    /// Nobody relies on what is there now.
    pub unsafe fn store(&self, at: usize, value: u64) -> bool {
        let Some(word) = self.word(at) else {
            return false;
        };
        // SAFETY: `word()` has checked that it is in the memory, and aligned; the rest by the rules of this function.
        unsafe { word.as_ptr().write_volatile(value) };
        true
    }

    fn word(&self, at: usize) -> Option<NonNull<u64>> {
        let range = self.range(at, size_of::<u64>())?;
        (at % size_of::<u64>() == 0).then_some(range.start.cast())
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Size in bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        // No overflow: so much memory is mapped.
        self.pages.len() * PAGE_SIZE
    }

    /// Whether there is no memory; never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The array of pages and their number, for C code that wants to see them.
    pub fn page_array(&self) -> (*mut *mut bindings::page, usize) {
        (self.pages.as_ptr().cast_mut(), self.pages.len())
    }

    /// A part of the memory, if it is inside.
    pub fn range(&self, start: usize, len: usize) -> Option<MemRange<'_>> {
        let end = start.checked_add(len)?;
        (end <= self.len()).then(|| MemRange {
            // SAFETY: `start` is within the mapping.
            start: unsafe { self.base.add(start) },
            len,
            _memory: PhantomData,
        })
    }

    /// Copies `len` bytes to `at`, unless that leaves the memory.
    ///
    /// # Safety
    ///
    /// `len` bytes at `from` are readable, and nobody else writes to these places meanwhile.
    #[inline]
    pub unsafe fn copy_in(&self, at: usize, from: *const u8, len: usize) -> bool {
        let Some(to) = self.range(at, len) else {
            return false;
        };
        // SAFETY: By the rules of this function; the range is mapped writable.
        unsafe { to.start.as_ptr().copy_from_nonoverlapping(from, len) };
        true
    }

    /// The page of a byte.
    pub(crate) fn page_at(&self, at: usize) -> Option<*mut bindings::page> {
        self.pages.get(at / PAGE_SIZE).copied()
    }

    /// Whether anybody but `self` and user mappings has a reference to the page with this index, other than a pin through
    /// a mapping. What somebody does with the page before he gives it up is done only when a barrier follows this.
    ///
    /// The kernel counts a pin as 1,024 references. Where no page has ever been mapped, nothing is
    /// taken for a pin; where one has, exactly as many references are. References and mappings are
    /// two counters: while pages are being mapped, the answer may be true although there is no such
    /// reference, but never the reverse.
    ///
    /// Context: any.
    #[inline]
    pub fn is_shared(&self, index: usize) -> bool {
        let Some(page) = self.pages.get(index) else {
            return false;
        };
        let mapped = self.mapped.load(Acquire);
        // SAFETY: `self` has a reference to its pages.
        let is_shared = unsafe { bindings::ferro_page_shared(*page, mapped != 0) };
        // A mapping that began in between may count although its reference was not seen: its count
        // pairs with `page()`.
        barrier::smp_mb(barrier::Read);
        is_shared || self.mapped.load(Relaxed) != mapped
    }

    /// A counted reference to the page with this index, for a page table.
    pub fn page(&self, index: usize) -> Option<PageRef> {
        let page = *self.pages.get(index)?;
        // Before anybody can pin the page through the mapping. Who does not see it yet takes a pin for a reference.
        self.mapped.fetch_add(1, Full);
        // SAFETY: `self` has a reference to the page.
        unsafe { bindings::ferro_get_page(page) };
        Some(PageRef(page))
    }
}

impl Drop for PageBuf {
    fn drop(&mut self) {
        if matches!(self.source, Source::Part { .. }) {
            return;
        }
        // SAFETY: By the type invariant this is a mapping made by `vmap()`, and it is not another object's.
        unsafe { bindings::vunmap(self.base.as_ptr().cast()) };
        if matches!(self.source, Source::Allocated) {
            drop(Pages(core::mem::take(&mut self.pages)));
        }
    }
}

/// A reference to a page that its receiver has to give back.
pub struct PageRef(*mut bindings::page);

impl PageRef {
    pub(crate) fn into_raw(self) -> *mut bindings::page {
        self.0
    }
}

/// Bytes that may change at any time.
#[derive(Clone, Copy)]
pub struct MemRange<'a> {
    start: NonNull<u8>,
    len: usize,
    _memory: PhantomData<&'a PageBuf>,
}

impl MemRange<'_> {
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they are.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }
}
