// SPDX-License-Identifier: GPL-2.0

//! The table that traps look up, with breakpoints in the text.
//!
//! Contexts: process, sleeps; [`with_published`]: any, NMI included. Locks: those of [`TextGuard`].

use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::Ordering::SeqCst;

use ferro_sys::cpu::task::cond_resched;
use kernel::prelude::*;
use kernel::sync::rcu::synchronize_rcu;

use super::segment::Change;
use super::table::Table;
use super::text::ModuleId;
use super::text::Ready;
use super::text::TextGuard;

/// Number of pages that are changed before the lock is released for others.
const BATCH: usize = 16;

/// The published table, or NULL. Changed only by the owner of the single [`Armed`], with the lock
/// of [`TextGuard`] held.
static PUBLISHED: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());

/// Number of batches of hit breakpoints that were removed.
static BATCHES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of batches of hit breakpoints that were removed since the module was loaded.
pub(crate) fn batches() -> usize {
    BATCHES.load(Relaxed)
}

/// Calls `f` with the published table, if there is one. Context: a trap.
///
/// # Safety
///
/// Interrupts are off, and RCU is watching: a grace period of RCU waits for the caller.
#[inline]
pub(super) unsafe fn with_published<R>(f: impl FnOnce(&Table) -> R) -> Option<R> {
    let table = PUBLISHED.load(Acquire);
    // SAFETY: `unpublish()` frees the table after a grace period of RCU, and the caller is a
    // reader.
    unsafe { table.as_ref() }.map(f)
}

/// A table with its breakpoints. Its drop removes them.
///
/// # Invariants
///
/// The pointer is from a `KBox`, and is the published one until `unpublish()`.
pub(crate) struct Armed {
    table: NonNull<Table>,
    ready: Ready,
}

// SAFETY: Any task may own it: it has a box of a table, which any task may own.
unsafe impl Send for Armed {}

impl Armed {
    /// Publishes the table, and writes the breakpoints. Fails with the table if another one is
    /// published.
    pub(crate) fn new(ready: Ready, table: KBox<Table>) -> Result<Self, KBox<Table>> {
        let lock = TextGuard::new(ready);
        if !PUBLISHED.load(Relaxed).is_null() {
            return Err(table);
        }
        let table = NonNull::from(KBox::leak(table));
        PUBLISHED.store(table.as_ptr(), SeqCst);
        drop(lock);
        // INVARIANT: Just published.
        let armed = Self { table, ready };
        armed.rearm();
        Ok(armed)
    }

    /// Returns the table.
    pub(crate) fn table(&self) -> &Table {
        // SAFETY: By the type invariant a box, to which others have shared references only.
        unsafe { self.table.as_ref() }
    }

    /// Writes the breakpoints of all places that have not been hit.
    pub(crate) fn rearm(&self) {
        self.change_all(Change::Arm);
    }

    fn change_all(&self, change: Change) {
        let mut pages = self
            .table()
            .segments()
            .iter()
            .flat_map(|segment| segment.pages().map(move |page| (segment, page)))
            .peekable();
        while pages.peek().is_some() {
            let mut lock = TextGuard::new(self.ready);
            let mut is_changed = false;
            for (segment, page) in pages.by_ref().take(BATCH) {
                is_changed |= segment.change(&mut lock, page, change);
                // Breakpoints in the code of this loop, or in others that are hit often, must not
                // wait for the worker, which needs the lock.
                is_changed |= self.table().take_hits(&mut lock);
            }
            if is_changed {
                lock.sync();
            }
            drop(lock);
            cond_resched();
        }
    }

    /// Removes all breakpoints. Returns the table.
    pub(crate) fn disarm(self) -> KBox<Table> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used afterwards, nor dropped.
        unsafe { this.unpublish() }
    }

    /// # Safety
    ///
    /// The object is not used afterwards.
    unsafe fn unpublish(&self) -> KBox<Table> {
        self.change_all(Change::Disarm);
        let lock = TextGuard::new(self.ready);
        PUBLISHED.store(core::ptr::null_mut(), SeqCst);
        drop(lock);
        // For traps of others, which may have found the table.
        synchronize_rcu();
        // SAFETY: By the type invariant from a box, which the caller gives up. No breakpoint is
        // left, and no trap uses the table after the grace period; `take_hits()` would have needed
        // the lock.
        unsafe { KBox::from_raw(self.table.as_ptr()) }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // SAFETY: Dropped only once, and not used afterwards.
        drop(unsafe { self.unpublish() });
    }
}

/// Removes the breakpoints that have been hit.
pub(super) fn take_hits(ready: Ready) {
    let mut lock = TextGuard::new(ready);
    let table = PUBLISHED.load(Relaxed);
    // SAFETY: It is published as long as the lock is held, and freed after that.
    let Some(table) = (unsafe { table.as_ref() }) else {
        return;
    };
    if table.take_hits(&mut lock) {
        lock.sync();
        BATCHES.fetch_add(1, Relaxed);
    }
}

/// Removes the breakpoints in a module before it is freed, and forgets its places.
pub(crate) fn forget(ready: Ready, table: &Table, module: ModuleId) {
    let its = |module_of: Option<ModuleId>| module_of == Some(module);
    for segment in table.segments().iter().filter(|s| its(s.module())) {
        segment.forget(&mut TextGuard::new(ready));
    }
}
