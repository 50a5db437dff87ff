// SPDX-License-Identifier: GPL-2.0

//! Readers of a hook's dispatches, and retired targets that wait for them.
//!
//! Contexts: process; sleeps. [`can_wait`]: any.

use core::ptr::NonNull;

use crate::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::Chain;
use super::Context;
use super::Target;

// RUST-KERNEL: the guard of `kernel::sync::srcu` does not mark its task, which `can_wait()` needs;
// ours until hooks do without that.
/// SRCU domain of the dispatches of one hook that may sleep.
///
/// # Invariants
///
/// The pointer is from `ferro_hook_readers_new()` and has not been freed.
pub struct Asleep(NonNull<bindings::srcu_struct>);

// SAFETY: A `struct srcu_struct` belongs to no task: another one may free it.
unsafe impl Send for Asleep {}
// SAFETY: Readers and waiters may use a `struct srcu_struct` from any number of tasks at once.
unsafe impl Sync for Asleep {}

impl Asleep {
    fn new() -> Result<Self> {
        // SAFETY: No requirement except the context.
        let readers = unsafe { bindings::ferro_hook_readers_new() };
        // INVARIANT: Just allocated.
        Ok(Self(NonNull::new(readers).ok_or(ENOMEM)?))
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::srcu_struct {
        self.0.as_ptr()
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. No dispatch is in progress: the chains that use it are
        // dropped after the wait for them.
        unsafe { bindings::ferro_hook_readers_free(self.as_ptr()) };
    }
}

/// Context of a hook's dispatches, and so the way to wait for them.
#[derive(Clone)]
pub enum Readers {
    /// In sections that are not preempted.
    Atomic,
    /// In tasks that may be preempted.
    Task,
    /// In tasks that may sleep.
    Asleep(Arc<Asleep>),
}

impl Readers {
    /// Makes the readers of a hook in this context. Errors: -ENOMEM.
    pub fn new(context: Context) -> Result<Self> {
        Ok(match context {
            Context::Atomic => Self::Atomic,
            Context::Task => Self::Task,
            Context::Sleep => Self::Asleep(Arc::new(Asleep::new()?, GFP_KERNEL)?),
        })
    }
}

/// Returns true if the caller may wait for dispatches: it may sleep, and is in no dispatch that may
/// sleep. Context: any.
pub fn can_wait() -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_hook_can_wait() }
}

/// Waits until all CPUs and tasks that were in an exit, or were returning from one, have left it,
/// except those that sleep. Context: process; sleeps, for two grace periods.
pub fn wait_for_exits() {
    // SAFETY: No requirement except the context.
    unsafe { bindings::ferro_hook_quiesce(true) };
}

/// Targets that have been removed from sites and may still be called.
pub struct RetireList(KBox<RetireListInner>);

struct RetireListInner {
    targets: KVec<Target>,
    /// Locks of the hooks with exits that may sleep.
    asleep: KVec<Arc<Asleep>>,
    any: bool,
    task: bool,
    waited: bool,
    /// Next element in a list of retire lists.
    next: Option<RetireList>,
}

impl RetireList {
    /// Makes a list with room for `targets`, of `hooks`.
    ///
    /// Errors: -ENOMEM.
    pub fn new(targets: usize, hooks: usize) -> Result<Self> {
        let retire_list = RetireListInner {
            targets: KVec::with_capacity(targets, GFP_KERNEL)?,
            asleep: KVec::with_capacity(hooks, GFP_KERNEL)?,
            any: false,
            task: false,
            waited: false,
            next: None,
        };
        Ok(Self(KBox::new(retire_list, GFP_KERNEL)?))
    }

    pub(super) fn has_room(&self) -> bool {
        self.0.targets.len() < self.0.targets.capacity()
    }

    /// Adds a target; there must be room.
    pub(super) fn push(&mut self, target: Target) -> Result {
        let pushed = self.0.targets.push_within_capacity(target);
        pushed.map_err(|_| ENOMEM)
    }

    /// Adds the readers of a hook, to wait for its dispatches without a retired target. Errors:
    /// -ENOMEM if there is no room.
    pub fn add_readers(&mut self, readers: &Readers) -> Result {
        self.0.any = true;
        self.0.task |= !matches!(readers, Readers::Atomic);
        if let Readers::Asleep(lock) = readers {
            if !self.0.asleep.iter().any(|l| Arc::ptr_eq(l, lock)) {
                let pushed = self.0.asleep.push_within_capacity(lock.clone());
                pushed.map_err(|_| ENOMEM)?;
            }
        }
        Ok(())
    }

    /// Waits until no noted or retired target is being called, except by exits that sleep where
    /// they must not. Context: process; sleeps, for a grace period or two.
    pub fn wait(&mut self) {
        self.0.waited = true;
        if self.0.any {
            // SAFETY: No requirement except the context.
            unsafe { bindings::ferro_hook_quiesce(self.0.task) };
        }
        for lock in self.0.asleep.iter() {
            // SAFETY: `lock` is counted here, and by the invariant of `Asleep` its structure has
            // not been freed. The caller can wait, as this function requires.
            unsafe { bindings::ferro_hook_readers_wait(lock.as_ptr()) };
        }
    }

    /// Returns true if the list has a chain with an exit that could sleep where it must not.
    pub fn has_counted_chain(&self) -> bool {
        self.chains().any(Chain::is_counted)
    }

    /// Returns true if an exit sleeps in a chain where it must not, so that exits after it may
    /// still be called. Called after [`RetireList::wait`].
    pub fn has_called_chain(&self) -> bool {
        self.chains().any(Chain::is_called)
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.0.targets.iter().filter_map(|target| match target {
            Target::Chain(chain) => Some(&**chain),
            Target::Idle | Target::Exit(_) => None,
        })
    }

    /// Drops targets that no CPU is in. Returns true if no target is left. Called after
    /// [`RetireList::wait`].
    fn drop_quiet(&mut self) -> bool {
        self.0.targets.retain(|target| match target {
            Target::Idle => false,
            Target::Exit(exit) => exit.counters().is_called(),
            Target::Chain(chain) => chain.is_called(),
        });
        self.0.targets.is_empty()
    }
}

impl Drop for RetireList {
    fn drop(&mut self) {
        if !self.0.waited {
            self.wait();
        }
        if !self.drop_quiet() {
            // Only lists that are not in `BusyList` get here.
            core::mem::forget(core::mem::take(&mut self.0.targets));
        }
    }
}

/// Retire lists that have been waited for, with targets in which an exit sleeps where it must not.
#[derive(Default)]
pub struct BusyList(Option<RetireList>);

impl BusyList {
    /// Makes an empty list.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if a chain is in a call, as [`RetireList::has_called_chain`].
    pub fn has_called_chain(&self) -> bool {
        let mut lists =
            core::iter::successors(self.0.as_ref(), |retire_list| retire_list.0.next.as_ref());
        lists.any(RetireList::has_called_chain)
    }

    /// Drops targets that no CPU is in, and keeps the rest.
    pub fn retire(&mut self, mut retire_list: RetireList) {
        if !retire_list.drop_quiet() {
            retire_list.0.next = self.0.take();
            self.0 = Some(retire_list);
        }
    }

    /// Drops targets that no CPU is in now.
    pub fn reap(&mut self) {
        let mut rest = self.0.take();
        while let Some(mut retire_list) = rest {
            rest = retire_list.0.next.take();
            self.retire(retire_list);
        }
    }
}
