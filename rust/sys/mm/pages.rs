// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel writes through a contiguous mapping and user space reads through its own.
//!
//! The memory may change during any access, so it is never a `&[u8]`, but a
//! [`MemRange`] and only copied.
//!
//! Contexts: process, to allocate and free; any otherwise.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bindings;
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
use crate::mm::reserve_mem::Reserved;

// RUST-KERNEL: `kernel::page` has single pages, and no mapping of several; ours until it has
// `vmap()`.
/// A contiguous mapping of pages.
///
/// # Invariants
///
/// This object owns a reference to each page in `pages`, or `source` keeps them; `base` is their
/// mapping.
pub struct PageBuf {
    pages: KVVec<*mut bindings::page>,
    base: NonNull<u8>,
    source: Source,
    /// Number of pages that have been given to page tables so far.
    mapped: Atomic<usize>,
}

// SAFETY: The object owns its pages and their mapping, which every task sees: another one may free
// them.
unsafe impl Send for PageBuf {}
// SAFETY: `mapped` is an atomic, and no other field changes. The bytes are only accessed through
// raw pointers, by `unsafe` blocks that state the other users.
unsafe impl Sync for PageBuf {}

/// Owner of the pages.
enum Source {
    /// This object owns the pages and the mapping.
    Allocated,
    /// Reserved memory, which is never freed; this object owns the mapping.
    Reserved { _claim: Claim },
    /// Another object owns the pages and the mapping.
    Part { _of: Arc<PageBuf> },
}

/// Frees the pages allocated so far if a later step fails.
struct Pages(KVVec<*mut bindings::page>);

impl Drop for Pages {
    fn drop(&mut self) {
        for page in &self.0 {
            // SAFETY: The page is from `ferro_alloc_page()`.
            unsafe { bindings::__free_pages(*page, 0) };
            cond_resched();
        }
    }
}

impl PageBuf {
    /// Allocates at least `bytes` bytes, in whole pages, zeroed. The size may be gigabytes, and the
    /// call may take long.
    ///
    /// Context: process; sleeps. Errors: -ENOMEM, -EINTR if the task is being killed, -EINVAL if
    /// `bytes` is 0 or too large.
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

    /// Maps a part of reserved memory, in whole pages, with its present contents, for the caller
    /// alone.
    ///
    /// Context: process; sleeps. Errors: -ENOMEM, -EINVAL if it is not inside or a page is not
    /// reserved, -EAGAIN while a part of it is in use. User space may have a page from an earlier
    /// claim: in a pipe, or in a registered buffer, which needs no file or mapping.
    pub fn of_reserved(reserved: &Reserved, at: usize, bytes: usize) -> Result<Self> {
        let claim = reserved.claim(at, bytes)?;
        let (start, bytes) = claim.range();
        let count = bytes / PAGE_SIZE;
        let n_pages = u32::try_from(count).map_err(|_| EINVAL)?;
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        for at in (0..bytes).step_by(PAGE_SIZE) {
            // No overflow: the claim is on existing memory.
            // SAFETY: No requirement.
            let page = unsafe { bindings::ferro_reserved_page(start + u64::try_from(at)?) };
            let page = NonNull::new(page).ok_or(EINVAL)?;
            // SAFETY: A page that the kernel reserved at boot exists permanently.
            if unsafe { bindings::ferro_reserved_page_busy(page.as_ptr()) } {
                return Err(EAGAIN);
            }
            pages.push(page.as_ptr(), GFP_KERNEL)?;
        }
        // SAFETY: `pages` holds `n_pages` pages, which the kernel reserved permanently at boot.
        let base = unsafe { bindings::ferro_vmap(pages.as_mut_ptr(), n_pages) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        // INVARIANT: All pages are mapped at `base`; they are never freed, and the claim excludes
        // other users. No user has a page from an earlier claim, nor gets one later: the owner of
        // the last mapping has given up the claim.
        Ok(Self {
            pages,
            base,
            source: Source::Reserved { _claim: claim },
            mapped: Atomic::new(0),
        })
    }

    /// Returns a part of the memory, in whole pages, which keeps all of it.
    ///
    /// Context: process. Errors: -EINVAL if the part is empty or not inside, -ENOMEM.
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

    /// Loads the word at a multiple of 8 bytes, inside of the memory.
    ///
    /// Context: any.
    pub fn load(&self, at: usize) -> Option<u64> {
        let word = self.word(at)?;
        // SAFETY: `word()` has checked that it is in the memory, and aligned. Any bytes are a
        // `u64`; other CPUs may be changing them.
        Some(unsafe { word.as_ptr().read_volatile() })
    }

    /// Stores a word at a multiple of 8 bytes; returns false if it is not inside.
    ///
    /// Context: any.
    ///
    /// # Safety
    ///
    /// No code relies on the present contents.
    pub unsafe fn store(&self, at: usize, value: u64) -> bool {
        let Some(word) = self.word(at) else {
            return false;
        };
        // SAFETY: `word()` has checked that it is in the memory, and aligned; the rest by the rules
        // of this function.
        unsafe { word.as_ptr().write_volatile(value) };
        true
    }

    fn word(&self, at: usize) -> Option<NonNull<u64>> {
        let range = self.range(at, size_of::<u64>())?;
        (at % size_of::<u64>() == 0).then_some(range.start.cast())
    }

    /// Returns the address of the first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the size in bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        // No overflow: this much memory is mapped.
        self.pages.len() * PAGE_SIZE
    }

    /// Returns false: there is memory.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the array of pages and their number, for C code.
    pub fn page_array(&self) -> (*mut *mut bindings::page, usize) {
        (self.pages.as_ptr().cast_mut(), self.pages.len())
    }

    /// Returns a part, unless it exceeds the memory.
    pub fn range(&self, start: usize, len: usize) -> Option<MemRange<'_>> {
        let end = start.checked_add(len)?;
        (end <= self.len()).then(|| MemRange {
            // SAFETY: `start` is within the mapping.
            start: unsafe { self.base.add(start) },
            len,
            _memory: PhantomData,
        })
    }

    /// Copies `len` bytes to `at`; returns false, without a copy, if they are not inside.
    ///
    /// # Safety
    ///
    /// `len` bytes at `from` are readable, and no other code writes to the destination during the
    /// copy.
    #[inline]
    pub unsafe fn copy_in(&self, at: usize, from: *const u8, len: usize) -> bool {
        let Some(to) = self.range(at, len) else {
            return false;
        };
        // SAFETY: By the rules of this function; the range is mapped writable.
        unsafe { to.start.as_ptr().copy_from_nonoverlapping(from, len) };
        true
    }

    /// Returns the page of a byte.
    pub(crate) fn page_at(&self, at: usize) -> Option<*mut bindings::page> {
        self.pages.get(at / PAGE_SIZE).copied()
    }

    /// Returns true if the page with this index has a reference other than those of `self`, of user
    /// mappings, and of pins through a mapping. A barrier after this call orders it after a former
    /// user's accesses.
    ///
    /// The kernel counts a pin as 1,024 references. Without mapped pages so far, no reference is
    /// taken for a pin; with them, exactly that many are. References and mappings are two counters.
    /// So the result may be true without such a reference while pages are being mapped, but is
    /// never wrongly false.
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
        // A mapping that began in between may be counted although its reference was not seen: its
        // count pairs with `page()`.
        barrier::smp_mb(barrier::Read);
        is_shared || self.mapped.load(Relaxed) != mapped
    }

    /// Takes a reference to the page with this index, for a page table.
    pub fn page(&self, index: usize) -> Option<PageRef> {
        let page = *self.pages.get(index)?;
        // Precedes any pin through the mapping. A CPU that does not see it yet takes a pin for a
        // reference.
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
        // SAFETY: By the type invariant this is a mapping made by `vmap()`, and no other object
        // owns it.
        unsafe { bindings::vunmap(self.base.as_ptr().cast()) };
        if matches!(self.source, Source::Allocated) {
            drop(Pages(core::mem::take(&mut self.pages)));
        }
    }
}

/// A reference to a page that its receiver has to drop.
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
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }
}
