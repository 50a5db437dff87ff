// SPDX-License-Identifier: GPL-2.0

//! Executable memory for short pieces of code: copies of instructions, trampolines.
//!
//! A page is divided into [`Slot`]s of one size, so that a copy of an instruction takes 32 bytes. The pages are
//! never writable: text is patched into them. All that is not code is breakpoints. Detours have pages of their own, which perf
//! and kallsyms call `kprobe_optinsn_page`, and all others `kprobe_insn_page`.
//!
//! A slot that is dropped may still be executing, in a task that was preempted in it. It is used again after a
//! grace period of RCU tasks, which nobody waits for: one callback serves all slots dropped before it began.
//! That grace period contains one of RCU, for an idle task that executes in a slot with preemption off.
//!
//! Contexts: process, sleeping; [`contains()`] and [`nth_page()`] anywhere, NMI included.
//! Locks: the pool's mutex, inside of which only memory is allocated.

use kernel::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use crate::code::text;
use crate::code::text::TextMutex;
use crate::sync::mutex::StaticMutex;

mod map;
use map::DETOURS;
use map::PAGES;

/// What all the memory is full of that is not code.
const INT3: u8 = 0xcc;

/// Sizes of slots in bytes, each the double of the one before.
const SIZES: [usize; 8] = [32, 64, 128, 256, 512, 1024, 2048, 4096];

/// The class of slots for a piece of code.
fn class_for(size: usize) -> Option<usize> {
    SIZES.iter().position(|slot| size != 0 && size <= *slot)
}

/// One bit a slot of a page.
type Slots = u128;

/// Whose code a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Copies of instructions, for probes.
    Probes,
    /// What the jumps lead to that stand in the place of probes' breakpoints.
    Detours,
    /// Trampolines of ftrace.
    Trampolines,
}

/// How many kinds of users there are.
const USERS: usize = 3;

impl User {
    /// Whether its slots are in pages for detours.
    fn is_detour(self) -> bool {
        self == Self::Detours
    }
}

/// What there is of slots of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The size in bytes.
    pub size: usize,
    /// How many pages have such slots.
    pub pages: usize,
    /// Slots in use for probes.
    pub probes: usize,
    /// Slots in use for detours.
    pub detours: usize,
    /// Slots in use for trampolines.
    pub trampolines: usize,
    /// Slots that are free when a grace period is over.
    pub waiting: usize,
    /// Slots that are free.
    pub free: usize,
}

static_assert!(PAGE_SIZE / SIZES[0] == Slots::BITS as usize);
static_assert!(PAGE_SIZE == SIZES[SIZES.len() - 1]);

/// Memory that nobody executes yet, or any more.
///
/// # Invariants
///
/// The address of a page from `ferro_exec_page_alloc()`, which this owns; and what that was told, whether it is for detours.
struct ExecPage(usize, bool);

impl ExecPage {
    /// Errors: -ENOMEM.
    fn new(detours: bool) -> Result<Self> {
        // SAFETY: It takes nothing but a name from us, and returns NULL or a page that nobody else has. It sleeps, as this
        // function's context allows.
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
        // SAFETY: By the type invariant the page is from `ferro_exec_page_alloc()` and only ours, so that it is freed once. Nobody
        // executes there: it has no slot that is in use, and `ferro_exec_pool_reclaim()` has waited for those that were.
        unsafe {
            bindings::ferro_exec_page_free(core::ptr::without_provenance_mut(self.0), self.1)
        };
    }
}

/// A page of slots, each of which is free, in use, or on its way from there to free.
struct Page {
    memory: ExecPage,
    free: Slots,
    /// Those in use, by their users.
    used: [Slots; USERS],
    /// Dropped, and no grace period has begun since.
    dropped: Slots,
    /// Dropped before the grace period that we are in.
    waiting: Slots,
}

/// The pages of one size of slots.
struct Class {
    /// Sorted by address.
    pages: KVVec<Page>,
    /// No page before this one has a free slot; of those for detours.
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

    /// Notes that a slot is not used any more.
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

    /// A grace period begins. Returns whether somebody waits for it.
    fn begin(&mut self) -> bool {
        let mut any = false;
        for page in self.pages.iter_mut() {
            page.waiting = core::mem::take(&mut page.dropped);
            any |= page.waiting != 0;
        }
        any
    }

    /// The grace period is over. One page of each kind without used slots is kept, the others go to `unused`, as far as it has
    /// room.
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
                // There is room.
                let _ = unused.push_within_capacity(page);
            }
        }
    }
}

struct Pool {
    classes: [Class; SIZES.len()],
    /// A grace period is going on.
    grace_period: bool,
    used: usize,
}

impl Pool {
    fn class(&mut self, class: usize) -> (&mut Class, usize) {
        (&mut self.classes[class], SIZES[class])
    }

    /// Has the kernel call us after a grace period, if anybody waits for one and none is going on.
    fn want_grace_period(&mut self) {
        if self.grace_period {
            return;
        }
        for class in &mut self.classes {
            self.grace_period |= class.begin();
        }
        if self.grace_period {
            // SAFETY: The callback's head must not be queued twice. `grace_period`, which the pool's mutex protects, was clear:
            // it is set until `ferro_exec_pool_reclaim()` clears it, after the callback, so that the head is free.
            unsafe { bindings::ferro_exec_pool_call() };
        }
    }
}

// SAFETY: `text.c` makes it with `DEFINE_MUTEX()`, and nobody but this pool uses it.
static POOL: StaticMutex<Pool> = unsafe {
    StaticMutex::new(
        &raw mut bindings::ferro_exec_pool_lock,
        Pool {
            classes: [const { Class::EMPTY }; SIZES.len()],
            grace_period: false,
            used: 0,
        },
    )
};

/// Room for a piece of code, full of breakpoints or of older code until it is written.
///
/// Dropping it needs process context, and nothing else: code may still be executing, but must not be entered any
/// more.
///
/// # Invariants
///
/// A slot of the pool that is not free, and nobody else's.
#[derive(Debug)]
pub struct Slot {
    addr: usize,
    class: usize,
    /// perf knows what is there.
    written: bool,
}

impl Slot {
    /// Where the code will be.
    pub fn address(&self) -> usize {
        self.addr
    }

    /// How much code there is room for, in bytes.
    pub fn len(&self) -> usize {
        SIZES[self.class]
    }

    /// Whether there is no room; never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Its address, for a caller who keeps it in place of this. Nobody else gets the slot, until [`Self::from_address`].
    pub fn into_address(self) -> usize {
        core::mem::ManuallyDrop::new(self).addr
    }

    /// The slot again.
    ///
    /// # Safety
    ///
    /// `address` is from [`Self::into_address`] of a slot that [`alloc`] has returned for `size` bytes, and that has been
    /// [written](Self::write). It is used once.
    pub unsafe fn from_address(address: usize, size: usize) -> Self {
        // INVARIANT: The caller guarantees that it was one, and is nobody else's. There is a class if `alloc()` has found it.
        Self {
            addr: address,
            class: class_for(size).unwrap_or(0),
            written: true,
        }
    }

    /// Writes the code, and breakpoints up to the end of the slot.
    ///
    /// Nobody may execute the slot yet: every CPU sees the code when it comes here after this, but not all at once.
    /// Errors: -E2BIG if it is more than there is room for, and then nothing is written.
    pub fn write(&mut self, code: &[u8], lock: &TextMutex) -> Result {
        self.write_each(code, lock, text::slot_comes)?;
        self.written = true;
        Ok(())
    }

    /// The same, for code of which somebody else tells perf: that it is there, and that it goes.
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

/// How much is written at once.
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

/// Allocates a slot with room for `size` bytes. Not with a [`TextMutex`] held.
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
            // INVARIANT: It has just been taken.
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

/// Whether an address is in a page of the pool. Context: any, NMI included.
pub fn contains(addr: usize) -> bool {
    PAGES.has(addr)
}

/// The address of a page, counted from the lowest. Context: any.
pub fn nth_page(n: usize) -> Option<usize> {
    PAGES.nth(n)
}

/// Whether the page at an address, if the pool has one there, is for detours. Context: any.
pub fn is_for_detours(page: usize) -> bool {
    DETOURS.has(page)
}

/// The number of slots in use.
pub fn used() -> usize {
    POOL.lock().used
}

/// The number of pages.
pub fn pages() -> usize {
    POOL.lock()
        .classes
        .iter()
        .map(|class| class.pages.len())
        .sum()
}

/// What there is of slots of each size.
pub fn in_use() -> [Use; SIZES.len()] {
    let pool = POOL.lock();
    core::array::from_fn(|class| match (pool.classes.get(class), SIZES.get(class)) {
        (Some(slots), Some(size)) => slots.in_use(*size),
        _ => Use::default(),
    })
}

/// Waits until all slots dropped before this are free.
pub fn flush() {
    // The grace period that is going on, and the one that the slots dropped meanwhile have to wait for.
    for _ in 0..2 {
        // SAFETY: It waits for callbacks and a work item, which take the pool's mutex: this function does not hold it, and
        // sleeps only where its context allows.
        unsafe { bindings::ferro_exec_pool_wait() };
    }
}

/// How many pages are given back at a time.
const BATCH: usize = 64;

/// After a grace period.
///
/// # Safety
///
/// Called once after a grace period that began when slots had been given up.
#[export]
unsafe extern "C" fn ferro_exec_pool_reclaim() {
    loop {
        // Without memory for the list they stay until the next time.
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
        // SAFETY: It waits for a grace period of RCU, outside of all locks and of all readers: a work item calls this function.
        unsafe { bindings::ferro_exec_page_quiesce() };
        drop(unused);
        if !more {
            return;
        }
    }
}
