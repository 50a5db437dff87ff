// SPDX-License-Identifier: GPL-2.0

//! Functions with data of their own: their stubs, and the trampolines that these come to.
//!
//! Contexts: process, sleeps; with `ftrace_lock` held, which a [`DataChange`] shows, where nothing else is said.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_core::tramp::stub;
use ferro_core::tramp::CallTarget;
use ferro_core::tramp::JumpTarget;
use ferro_core::tramp::STUB_LEN;
use ferro_sys::code::text::TextMutex;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;

use super::rebuild::Renewed;
use super::shared_trampoline::Retired;
use super::shared_trampoline::SharedTrampoline;
use super::template::Templates;

/// What happens to functions of a `struct ftrace_data_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataEvent {
    /// There are new ones.
    Attach,
    /// Nobody calls the stubs of these any more.
    Detached,
    /// Nobody calls those of any, and the ops is not used any more.
    Released,
}

/// That it happens.
///
/// # Invariants
///
/// The structure is there for `'a`, and says what is so; the entries are nobody else's meanwhile. `ftrace_lock` is held. A stub
/// of an entry that is above 1 is one that [`DataOps::attach`] has made, and that nothing else has.
pub(crate) struct DataChange<'a>(NonNull<bindings::ftrace_data_change>, PhantomData<&'a ()>);

impl DataChange<'_> {
    /// [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `change` is NULL, or what `data.c` passes to the hook, for `'a`.
    pub(super) unsafe fn new(change: *mut bindings::ftrace_data_change) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(change).map(|change| Self(change, PhantomData))
    }

    fn raw(&self) -> &bindings::ftrace_data_change {
        // SAFETY: By the type invariant it is there, and nobody changes it meanwhile.
        unsafe { self.0.as_ref() }
    }

    /// What.
    pub(crate) fn event(&self) -> DataEvent {
        match self.raw().event {
            bindings::ftrace_data_event_FTRACE_DATA_ATTACH => DataEvent::Attach,
            bindings::ftrace_data_event_FTRACE_DATA_DETACHED => DataEvent::Detached,
            _ => DataEvent::Released,
        }
    }

    fn ops(&self) -> usize {
        self.raw().ops.addr()
    }

    /// The callback, and whether it gets all registers.
    fn callback(&self) -> (CallTarget, bool) {
        let ops = self.raw().ops;
        // SAFETY: By the type invariant it is there. Its client changes neither while it is used.
        let (func, flags) = unsafe { ((*ops).func, (*ops).flags) };
        let regs =
            bindings::FTRACE_OPS_FL_SAVE_REGS | bindings::FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED;
        (
            CallTarget::new(func.map_or(0, |func| func as usize as u64)),
            flags & regs as usize != 0,
        )
    }

    fn entries(&mut self) -> &mut [bindings::ftrace_data_entry] {
        let raw = self.raw();
        match usize::try_from(raw.count) {
            // SAFETY: By the type invariant there are so many, and they are this change's alone while it is borrowed.
            Ok(count) if count != 0 => unsafe {
                core::slice::from_raw_parts_mut(raw.entries, count)
            },
            _ => &mut [],
        }
    }
}

/// The trampolines that the stubs of each `struct ftrace_data_ops` come to, by its address.
pub(crate) struct DataOps(RBTree<usize, KBox<SharedTrampoline>>);

/// One of them, for the list.
pub(crate) struct DataEntry {
    /// Where its trampoline is, what it uses, its slot, and whether callbacks get all registers.
    pub(crate) made: (usize, usize, usize, bool),
}

impl DataOps {
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Whether functions of the ops at this address may have stubs.
    pub(super) fn has(&self, ops: usize) -> bool {
        self.0.get(&ops).is_some()
    }

    /// Makes stubs for new functions; those for which there is no room call the ops's own trampoline.
    ///
    /// Errors: -ENOMEM; -ERANGE if the callback is more than 2 GiB away; -EOPNOTSUPP if the kernel's code uses R11.
    pub(crate) fn attach(&mut self, change: &mut DataChange<'_>, templates: &Templates) -> Result {
        let ops = change.ops();
        if !self.has(ops) {
            let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
            let (function, saves_regs) = change.callback();
            let code = SharedTrampoline::from_r11(function, saves_regs, templates)?;
            self.0.insert(room.into_node(ops, code));
        }
        let code = self.0.get(&ops).ok_or(ENOMEM)?;
        let to = JumpTarget::new(code.code().address() as u64);
        for entry in change.entries().iter_mut().filter(|e| e.stub == 0) {
            let mut slot = exec_pool::alloc(STUB_LEN, User::Trampolines)?;
            let at = slot.address() as u64;
            let code = stub(at, entry.data.expose_provenance() as u64, to).ok_or(ERANGE)?;
            slot.write(&code, &TextMutex::new())?;
            entry.stub = slot.into_address();
        }
        Ok(())
    }

    /// Frees stubs that nobody calls any more; those who are in one are waited for by the pool.
    pub(crate) fn detach(&mut self, change: &mut DataChange<'_>) {
        for entry in change.entries() {
            let stub = core::mem::replace(&mut entry.stub, 1);
            if stub > 1 {
                // SAFETY: By the type invariant of `DataChange` it is from `attach()`, for this length, and has been written. It is
                // taken out of the entry, which alone has it.
                drop(unsafe { Slot::from_address(stub, STUB_LEN) });
            }
        }
    }

    /// The same, of all functions of an ops; and nobody comes to its trampoline any more. Whether there was one.
    pub(crate) fn release(&mut self, change: &mut DataChange<'_>, closed: &mut Retired) -> bool {
        self.detach(change);
        match self.0.remove(&change.ops()) {
            Some(code) => {
                closed.close(code);
                true
            }
            None => false,
        }
    }

    /// For each.
    pub(crate) fn each(
        &self,
        mut f: impl FnMut(&DataEntry) -> core::fmt::Result,
    ) -> core::fmt::Result {
        for code in self.0.values() {
            let regs = code.saves_regs();
            let code = code.code();
            f(&DataEntry {
                made: (code.address(), code.used(), code.slot_len(), regs),
            })?;
        }
        Ok(())
    }
}

// SAFETY: `data.c` makes the mutex, by `DEFINE_MUTEX()`, for its own data and this: whether functions may have stubs.
static LOCK: StaticMutex<bool> =
    unsafe { StaticMutex::new(&raw mut bindings::ferro_tramp_data_mutex, false) };

/// Nothing is attached or detached meanwhile.
///
/// Locks: outside of `ftrace_lock`, of the engine's mutex and of the registry's of hooks: an exit does not attach data.
pub(crate) struct DataLock(StaticGuard<bool>);

impl DataLock {
    /// Context: without `ftrace_lock`.
    pub(crate) fn new() -> Self {
        Self(LOCK.lock())
    }

    /// Attaches the engine by `arm`, with stubs for all functions that are attached, which are freed again if that fails.
    ///
    /// Errors: those of `arm`; -EBUSY if it has been done before, and [`Self::free_all`] has not.
    pub(crate) fn arm(&mut self, arm: impl FnOnce() -> Result) -> Result {
        if core::mem::replace(&mut *self.0, true) {
            return Err(EBUSY);
        }
        self.make_all();
        arm().inspect_err(|_| {
            *self.0 = false;
            self.visit_all();
        })
    }

    /// None has one, and functions have no set of the engine's, which could have them called.
    fn make_all(&self) {
        // SAFETY: The mutex is held.
        unsafe {
            bindings::ferro_tramp_each_data(
                bindings::ftrace_data_event_FTRACE_DATA_ATTACH,
                Some(visit),
            )
        };
    }

    /// Has the engine free all stubs, unless somebody calls them: it makes no new ones any more, and functions have been renewed
    /// since.
    pub(crate) fn free_all(&mut self, renewed: &Renewed) {
        if renewed.is_last() && core::mem::replace(&mut *self.0, false) {
            self.visit_all();
        }
    }

    fn visit_all(&self) {
        // SAFETY: The mutex is held.
        unsafe {
            bindings::ferro_tramp_each_data(
                bindings::ftrace_data_event_FTRACE_DATA_RELEASED,
                Some(visit),
            )
        };
    }
}

/// # Safety
///
/// As for [`DataChange::new`].
unsafe extern "C" fn visit(change: *mut bindings::ftrace_data_change) {
    // SAFETY: The caller guarantees it.
    if let Some(change) = unsafe { DataChange::new(change) } {
        crate::registry::change_data(change);
    }
}
