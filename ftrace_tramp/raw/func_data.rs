// SPDX-License-Identifier: GPL-2.0

//! Per-function data: the stubs of functions, and the trampolines that the stubs jump to.
//!
//! Contexts: process, sleeps; `ftrace_lock` held, which a [`DataChange`] proves, unless noted
//! otherwise.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_ftrace_tramp_core::stub;
use ferro_ftrace_tramp_core::CallTarget;
use ferro_ftrace_tramp_core::JumpTarget;
use ferro_ftrace_tramp_core::STUB_LEN;
use ferro_sys::bindings;
use ferro_sys::code::text::TextMutex;
use ferro_sys::mm::exec_pool;
use ferro_sys::mm::exec_pool::Slot;
use ferro_sys::mm::exec_pool::User;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;

use super::rebuild::is_detaching;
use super::shared_trampoline::Retired;
use super::shared_trampoline::SharedTrampoline;
use super::template::Templates;
use super::trampoline::TrampolineInfo;

/// `NO_STUB` of `data.c`.
const NO_STUB: usize = 1;

/// Kind of a change to functions of a `struct ftrace_data_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataEvent {
    /// The functions of these entries are new.
    Attach,
    /// No site calls the stubs of these entries.
    Detached,
    /// No site calls any stub of the ops, and the ops is no longer used.
    Released,
}

/// Change to functions of a `struct ftrace_data_ops`, as passed to the hook.
///
/// # Invariants
///
/// The structure is valid and accurate for `'a`, with exclusive access to the entries.
/// `ftrace_lock` is held. The `stub` of an entry is 0 before one is made, and [`NO_STUB`] if the
/// entry gets none. A greater value is a stub that [`DataTrampolines::attach`] has made, owned by
/// the entry alone.
pub(crate) struct DataChange<'a>(NonNull<bindings::ftrace_data_change>, PhantomData<&'a ()>);

impl DataChange<'_> {
    /// Returns [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `change` is NULL, or the pointer that `data.c` passes to the hook, for `'a`.
    pub(super) unsafe fn new(change: *mut bindings::ftrace_data_change) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(change).map(|change| Self(change, PhantomData))
    }

    fn raw(&self) -> &bindings::ftrace_data_change {
        // SAFETY: Valid by the type invariant, and no other code changes it for `'a`.
        unsafe { self.0.as_ref() }
    }

    /// Returns the kind of the change.
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

    /// Returns the callback, and true if the callback gets all registers.
    fn callback(&self) -> (CallTarget, bool) {
        let ops = self.raw().ops;
        // SAFETY: Valid by the type invariant. The client changes neither field while the ops is in
        // use.
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
            // SAFETY: By the type invariant there are `count` entries, and this change has
            // exclusive access to them while borrowed.
            Ok(count) if count != 0 => unsafe {
                core::slice::from_raw_parts_mut(raw.entries, count)
            },
            _ => &mut [],
        }
    }
}

/// Trampolines that stubs jump to, by the address of their `struct ftrace_data_ops`.
pub(crate) struct DataTrampolines(RBTree<usize, KBox<SharedTrampoline>>);

impl DataTrampolines {
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Returns true if functions of the ops at this address may have stubs.
    pub(super) fn has(&self, ops: usize) -> bool {
        self.0.get(&ops).is_some()
    }

    /// Makes stubs for new functions, unless the engine is being detached. A function without a
    /// stub calls the ops's own trampoline.
    ///
    /// Errors: -ENOMEM; -ERANGE if the callback is more than 2 GiB away; -EOPNOTSUPP if the
    /// kernel's code uses R11.
    pub(crate) fn attach(&mut self, change: &mut DataChange<'_>, templates: &Templates) -> Result {
        if is_detaching() {
            return Ok(());
        }
        let ops = change.ops();
        if !self.has(ops) {
            let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
            let (function, saves_regs) = change.callback();
            let trampoline = SharedTrampoline::from_r11(function, saves_regs, templates)?;
            self.0.insert(room.into_node(ops, trampoline));
        }
        let shared = self.0.get(&ops).ok_or(ENOMEM)?;
        let to = JumpTarget::new(shared.trampoline().address() as u64);
        for entry in change.entries().iter_mut().filter(|e| e.stub == 0) {
            let mut slot = exec_pool::alloc(STUB_LEN, User::Trampolines)?;
            let at = slot.address() as u64;
            let code = stub(at, entry.data.expose_provenance() as u64, to).ok_or(ERANGE)?;
            slot.write(&code, &TextMutex::new())?;
            entry.stub = slot.into_address();
        }
        Ok(())
    }

    /// Frees stubs that no site calls. The pool waits for tasks that still execute one.
    pub(crate) fn detach(&mut self, change: &mut DataChange<'_>) {
        for entry in change.entries() {
            let stub = core::mem::replace(&mut entry.stub, NO_STUB);
            if stub > NO_STUB {
                // SAFETY: By the type invariant of `DataChange`, `attach()` has made the stub with
                // this length. The entry was its only owner, and no longer has it.
                drop(unsafe { Slot::from_address(stub, STUB_LEN) });
            }
        }
    }

    /// Frees all stubs of an ops and retires its trampoline. Returns true if there was one.
    pub(crate) fn release(&mut self, change: &mut DataChange<'_>, retired: &mut Retired) -> bool {
        self.detach(change);
        match self.0.remove(&change.ops()) {
            Some(trampoline) => {
                retired.add(trampoline);
                true
            }
            None => false,
        }
    }

    /// Calls `f` for each trampoline.
    pub(crate) fn each(
        &self,
        mut f: impl FnMut(&TrampolineInfo) -> core::fmt::Result,
    ) -> core::fmt::Result {
        let mut all = self.0.values();
        all.try_for_each(|shared| f(&shared.trampoline().info()))
    }
}
