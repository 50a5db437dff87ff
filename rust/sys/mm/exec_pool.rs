// SPDX-License-Identifier: GPL-2.0

//! Executable memory for short pieces of code: copies of instructions, detour buffers, trampolines.
//!
//! A page is divided into [`Slot`]s of one size, so that a copy of an instruction takes 32 bytes.
//! The pages are never writable: text is patched into them. Unused bytes are breakpoints. Detour
//! buffers have pages of their own, which perf and kallsyms call `kprobe_optinsn_page`, and all
//! others `kprobe_insn_page`.
//!
//! A dropped slot may still be executing, in a task that was preempted in it. The slot is reused
//! after a grace period of RCU tasks. No caller waits for that: one callback serves all slots
//! dropped before it began. That grace period contains one of RCU, for an idle task that executes
//! in a slot with preemption off.
//!
//! Contexts: process, sleeping; [`contains()`] and [`nth_page()`]: any, NMI included.
//! Locks: the pool's mutex. Its holder only allocates memory.

use crate::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use crate::code::text;
use crate::code::text::TextMutex;
use crate::static_mutex;
use crate::sync::mutex::StaticMutex;

mod map;
use map::DETOURS;
use map::PAGES;

/// Filler of unused bytes.
const INT3: u8 = 0xcc;

/// Sizes of slots in bytes, each twice the one before.
const SIZES: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Returns the class of slots for a piece of code.
fn class_for(size: usize) -> Option<usize> {
    SIZES.iter().position(|slot| size != 0 && size <= *slot)
}

/// One bit a slot of a page.
type Slots = u128;

/// User of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Copies of instructions, for probes.
    Probes,
    /// Detour buffers, the targets of jumps in the place of probes' breakpoints.
    Detours,
    /// Trampolines of ftrace.
    Trampolines,
}

/// Number of kinds of users.
const USERS: usize = 3;

impl User {
    /// Returns true if its slots are in pages for detour buffers.
    fn is_detour(self) -> bool {
        self == Self::Detours
    }
}

/// Usage of slots of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Size in bytes.
    pub size: usize,
    /// Number of pages with such slots.
    pub pages: usize,
    /// Slots in use for probes.
    pub probes: usize,
    /// Slots in use for detour buffers.
    pub detours: usize,
    /// Slots in use for trampolines.
    pub trampolines: usize,
    /// Slots that wait for a grace period.
    pub waiting: usize,
    /// Free slots.
    pub free: usize,
}

static_assert!(PAGE_SIZE / SIZES[0] == Slots::BITS as usize);
static_assert!(PAGE_SIZE == SIZES[SIZES.len() - 1]);

/// A page that no CPU executes.
///
/// # Invariants
///
/// The address of a page from `ferro_exec_page_alloc()`, which this owns, and the argument of that
/// call: true for detour buffers.
struct ExecPage(usize, bool);

impl ExecPage {
    /// Allocates a page. Errors: -ENOMEM.
    fn new(detours: bool) -> Result<Self> {
        // SAFETY: The function takes only the kind of page, and returns NULL or a page without
        // other users. It sleeps, as this function's context allows.
        let page = unsafe { bindings::ferro_exec_page_alloc(detours) };
        if page.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: It has just been allocated.
        Ok(Self(page.addr(), detours))
    }
}

impl Drop for ExecPage {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the page is from `ferro_exec_page_alloc()` and has no other
        // owner, so that it is freed once. No CPU executes it: it has no slot in use, and
        // `ferro_exec_pool_reclaim()` has waited for the slots that were.
        unsafe {
            bindings::ferro_exec_page_free(core::ptr::without_provenance_mut(self.0), self.1)
        };
    }
}

/// A page of slots. Each slot is free, in use, or waiting to be free.
struct Page {
    memory: ExecPage,
    free: Slots,
    /// Slots in use, by user.
    used: [Slots; USERS],
    /// Slots that were dropped, without a grace period that has begun since.
    dropped: Slots,
    /// Slots that were dropped before the present grace period.
    waiting: Slots,
}

/// Pages with one size of slots.
struct Class {
    /// Sorted by address.
    pages: KVVec<Page>,
    /// Index of a page before which no page has a free slot; the second for detour buffers.
    first_free: [usize; 2],
}

impl Class {
    const EMPTY: Self = Self {
        pages: KVVec::new(),
        first_free: [0; 2],
    };

    fn take(&mut self, size: usize, user: User) -> Option<usize> {
        let first = &mut self.first_free[usize::from(user.is_detour())];
        for (i, page) in self.pages.iter_mut().enumerate().skip(*first) {
            *first = i;
            if page.free != 0 && page.memory.1 == user.is_detour() {
                let slot = page.free.trailing_zeros();
                page.free &= page.free - 1;
                page.used[user as usize] |= 1 << slot;
                return Some(page.memory.0 + slot as usize * size);
            }
        }
        *first = self.pages.len();
        None
    }

    fn add(&mut self, memory: ExecPage, size: usize) -> Result {
        self.pages.reserve(1, GFP_KERNEL)?;
        let at = self.pages.partition_point(|page| page.memory.0 < memory.0);
        DETOURS.set(memory.0, memory.1);
        if !PAGES.set(memory.0, true) {
            return Err(ENOMEM);
        }
        let page = Page {
            memory,
            free: Slots::MAX >> (Slots::BITS as usize - PAGE_SIZE / size),
            used: [0; USERS],
            dropped: 0,
            waiting: 0,
        };
        self.first_free = self.first_free.map(|first| first.min(at));
        self.pages
            .insert_within_capacity(at, page)
            .map_err(|_| ENOMEM)
    }

    /// Marks a slot as dropped.
    fn put(&mut self, addr: usize, size: usize) {
        let behind = self.pages.partition_point(|page| page.memory.0 <= addr);
        let page = behind.checked_sub(1).and_then(|i| self.pages.get_mut(i));
        if let Some(page) = page {
            let slot = 1 << ((addr - page.memory.0) / size);
            page.dropped |= slot;
            for used in &mut page.used {
                *used &= !slot;
            }
        }
    }

    fn in_use(&self, size: usize) -> Use {
        let mut sum = Use {
            size,
            pages: self.pages.len(),
            ..Use::default()
        };
        for page in self.pages.iter() {
            let [probes, detours, trampolines] = page.used.map(|used| used.count_ones() as usize);
            sum.probes += probes;
            sum.detours += detours;
            sum.trampolines += trampolines;
            sum.waiting += (page.dropped | page.waiting).count_ones() as usize;
            sum.free += page.free.count_ones() as usize;
        }
        sum
    }

    /// Begins a grace period. Returns true if slots wait for it.
    fn begin(&mut self) -> bool {
        let mut any = false;
        for page in self.pages.iter_mut() {
            page.waiting = core::mem::take(&mut page.dropped);
            any |= page.waiting != 0;
        }
        any
    }

    /// Ends a grace period. Keeps one page of each kind without used slots; moves the others to
    /// `unused`, as far as it has room.
    fn end(&mut self, size: usize, unused: &mut KVVec<Page>) {
        let all = Slots::MAX >> (Slots::BITS as usize - PAGE_SIZE / size);
        let mut keep = [true; 2];
        let mut i = 0;
        self.first_free = [0; 2];
        while let Some(page) = self.pages.get_mut(i) {
            page.free |= core::mem::take(&mut page.waiting);
            let keep = &mut keep[usize::from(page.memory.1)];
            if page.free != all || core::mem::take(keep) || unused.len() == unused.capacity() {
                i += 1;
                continue;
            }
            PAGES.set(page.memory.0, false);
            if let Ok(page) = self.pages.remove(i) {
                // The loop has checked the room.
                let _ = unused.push_within_capacity(page);
            }
        }
    }
}

struct Pool {
    classes: [Class; SIZES.len()],
    /// True during a grace period.
    grace_period: bool,
    used: usize,
}

impl Pool {
    fn class(&mut self, class: usize) -> (&mut Class, usize) {
        (&mut self.classes[class], SIZES[class])
    }

    /// Schedules a callback after a grace period, if slots wait for one and none is in progress.
    fn want_grace_period(&mut self) {
        if self.grace_period {
            return;
        }
        for class in &mut self.classes {
            self.grace_period |= class.begin();
        }
        if self.grace_period {
            // SAFETY: The callback's head must not be queued twice. `grace_period`, which the
            // pool's mutex protects, was clear: it is set until `ferro_exec_pool_reclaim()` clears
            // it, after the callback, so that the head is free.
            unsafe { bindings::ferro_exec_pool_call() };
        }
    }
}

static POOL: StaticMutex<Pool> = static_mutex!(
    ferro_exec_pool_lock,
    Pool {
        classes: [const { Class::EMPTY }; SIZES.len()],
        grace_period: false,
        used: 0,
    }
);

/// Room for a piece of code. It has breakpoints or older code before the write.
///
/// The drop needs only process context: the code may still be executing, but no CPU may enter it.
///
/// # Invariants
///
/// A slot of the pool that is not free, and has no other owner.
#[derive(Debug)]
pub struct Slot {
    addr: usize,
    class: usize,
    /// True if perf knows the code.
    written: bool,
}

impl Slot {
    /// Returns the address of the code.
    pub fn address(&self) -> usize {
        self.addr
    }

    /// Returns the room for code, in bytes.
    pub fn len(&self) -> usize {
        SIZES[self.class]
    }

    /// Returns false: a slot has room.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns its address, for a caller that keeps that instead. The slot stays taken until
    /// [`Self::from_address`].
    pub fn into_address(self) -> usize {
        core::mem::ManuallyDrop::new(self).addr
    }

    /// Returns the slot of an address.
    ///
    /// # Safety
    ///
    /// `address` is from [`Self::into_address`] of a slot that [`alloc`] has returned for `size`
    /// bytes, and that has been [written](Self::write). It is used once.
    pub unsafe fn from_address(address: usize, size: usize) -> Self {
        // INVARIANT: The caller guarantees that this was a slot without another owner. Its class
        // exists, as `alloc()` has found it.
        Self {
            addr: address,
            class: class_for(size).unwrap_or(0),
            written: true,
        }
    }

    /// Writes the code, and breakpoints up to the end of the slot.
    ///
    /// No CPU may execute the slot before this returns: CPUs do not see the code all at once.
    /// Errors: -E2BIG if the code is larger than the room; then nothing is written.
    pub fn write(&mut self, code: &[u8], lock: &TextMutex) -> Result {
        self.write_each(code, lock, text::slot_comes)?;
        self.written = true;
        Ok(())
    }

    /// Writes code. The caller tells perf about its creation and its removal.
    pub fn write_untold(&mut self, code: &[u8], lock: &TextMutex) -> Result {
        self.write_each(code, lock, |_, _| ())
    }

    fn write_each(&mut self, code: &[u8], lock: &TextMutex, told: impl Fn(usize, &[u8])) -> Result {
        let end = self.len();
        if code.len() > end {
            return Err(E2BIG);
        }
        let mut code = code.iter();
        let mut at = 0;
        while at < end {
            let mut buffer = [INT3; BUFFER];
            for (to, from) in buffer.iter_mut().zip(&mut code) {
                *to = *from;
            }
            let len = BUFFER.min(end - at);
            let part = buffer.get(..len).ok_or(EINVAL)?;
            lock.write_slot(self.addr + at, part);
            told(self.addr + at, part);
            at += len;
        }
        Ok(())
    }
}

/// Number of bytes that are written at once.
const BUFFER: usize = 128;

impl Drop for Slot {
    fn drop(&mut self) {
        if self.written {
            text::slot_goes(self.addr, self.len());
        }
        let mut pool = POOL.lock();
        let (class, size) = pool.class(self.class);
        class.put(self.addr, size);
        pool.used -= 1;
        pool.want_grace_period();
    }
}

/// Allocates a slot with room for `size` bytes. The caller holds no [`TextMutex`].
///
/// Errors: -EINVAL if `size` is 0 or more than a page, -ENOMEM.
pub fn alloc(size: usize, user: User) -> Result<Slot> {
    let class = class_for(size).ok_or(EINVAL)?;
    let mut memory = None;
    loop {
        let mut pool = POOL.lock();
        let (of_size, slot_size) = pool.class(class);
        if let Some(memory) = memory.take() {
            of_size.add(memory, slot_size)?;
        }
        if let Some(addr) = of_size.take(slot_size, user) {
            pool.used += 1;
            // INVARIANT: The slot has just been taken.
            return Ok(Slot {
                addr,
                class,
                written: false,
            });
        }
        drop(pool);
        memory = Some(ExecPage::new(user.is_detour())?);
    }
}

/// Returns true if an address is in a page of the pool. Context: any, NMI included.
pub fn contains(addr: usize) -> bool {
    PAGES.has(addr)
}

/// Returns the address of the nth page, from the lowest. Context: any.
pub fn nth_page(n: usize) -> Option<usize> {
    PAGES.nth(n)
}

/// Returns true if the pool's page at an address is for detour buffers. Context: any.
pub fn is_for_detours(page: usize) -> bool {
    DETOURS.has(page)
}

/// Returns the number of slots in use.
pub fn used() -> usize {
    POOL.lock().used
}

/// Returns the number of pages.
pub fn pages() -> usize {
    POOL.lock()
        .classes
        .iter()
        .map(|class| class.pages.len())
        .sum()
}

/// Returns the usage of slots of each size.
pub fn in_use() -> [Use; SIZES.len()] {
    let pool = POOL.lock();
    core::array::from_fn(|class| match (pool.classes.get(class), SIZES.get(class)) {
        (Some(slots), Some(size)) => slots.in_use(*size),
        _ => Use::default(),
    })
}

/// Waits until all slots dropped before this call are free.
pub fn flush() {
    // Waits for the present grace period, and for the next one, which the slots dropped since need.
    for _ in 0..2 {
        // SAFETY: It waits for callbacks and a work item, which take the pool's mutex: this
        // function does not hold it, and sleeps only where its context allows.
        unsafe { bindings::ferro_exec_pool_wait() };
    }
}

/// Number of pages that are freed at a time.
const BATCH: usize = 64;

/// Frees slots and pages after a grace period.
///
/// # Safety
///
/// Called once after a grace period that began after slots had been dropped.
#[no_mangle]
unsafe extern "C" fn ferro_exec_pool_reclaim() {
    loop {
        // Without memory for the list, the pages stay until the next time.
        let mut unused = KVVec::with_capacity(BATCH, GFP_KERNEL | __GFP_NOWARN).unwrap_or_default();
        let mut pool = POOL.lock();
        for (class, size) in pool.classes.iter_mut().zip(SIZES) {
            class.end(size, &mut unused);
        }
        let more = !unused.is_empty() && unused.len() == unused.capacity();
        if !more {
            pool.grace_period = false;
            pool.want_grace_period();
        }
        drop(pool);
        if unused.is_empty() {
            return;
        }
        // SAFETY: It waits for a grace period of RCU, outside of all locks and readers: a work item
        // calls this function.
        unsafe { bindings::ferro_exec_page_quiesce() };
        drop(unused);
        if !more {
            return;
        }
    }
}

crate::declared_in_c!(ferro_exec_pool_reclaim);
