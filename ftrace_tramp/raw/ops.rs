// SPDX-License-Identifier: GPL-2.0

//! The `struct ftrace_ops` of a client, while ftrace has us make its trampoline, or free it.
//!
//! Contexts: process, sleeps.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_core::tramp::CallTarget;
use ferro_sys::same_offset;
use kernel::bindings;

same_offset!(
    ftrace_ops.flags,
    ftrace_ops.trampoline,
    ftrace_ops.trampoline_size,
);

/// An ops that ftrace works on.
///
/// # Invariants
///
/// There for `'a`. Nobody else changes its flags and its trampoline meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Ops<'a>(NonNull<bindings::ftrace_ops>, PhantomData<&'a ()>);

impl Ops<'_> {
    /// [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `ops` is NULL, or there for `'a`, and ftrace has it at rest: nobody else changes its flags and its trampoline.
    pub(super) unsafe fn new(ops: *mut bindings::ftrace_ops) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(ops).map(|ops| Self(ops, PhantomData))
    }

    /// What it is found by.
    pub(crate) fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    pub(super) fn as_non_null(self) -> NonNull<bindings::ftrace_ops> {
        self.0
    }

    fn flags(self) -> usize {
        // SAFETY: By the type invariant it is there, and nobody changes the flags.
        unsafe { (*self.0.as_ptr()).flags }
    }

    /// Whether the callback gets all registers.
    pub(crate) fn saves_regs(self) -> bool {
        self.flags() & bindings::FTRACE_OPS_FL_SAVE_REGS as usize != 0
    }

    /// Whether it has functions call others directly.
    pub(super) fn is_direct(self) -> bool {
        self.flags() & bindings::FTRACE_OPS_FL_DIRECT as usize != 0
    }

    /// Returns true if its callback may change where execution goes on, as a livepatch does.
    pub(crate) fn changes_ip(self) -> bool {
        self.flags() & bindings::FTRACE_OPS_FL_IPMODIFY as usize != 0
    }

    /// The address of its trampoline, whoever made it; 0 if there is none.
    pub(crate) fn trampoline(self) -> usize {
        // SAFETY: By the type invariant it is there, and nobody changes the field.
        unsafe { (*self.0.as_ptr()).trampoline }
    }

    /// The function that its trampoline has to call now. Only while ftrace has its lock, which is where it asks for a
    /// trampoline.
    pub(crate) fn function(self) -> CallTarget {
        // SAFETY: By the type invariant it is there. What the function looks at changes with `ftrace_lock` only.
        let function = unsafe { bindings::ferro_tramp_function(self.0.as_ptr()) };
        CallTarget::new(function as u64)
    }

    /// The same when ftrace has given up: nothing that counts, if the ops has just gone.
    pub(crate) fn last_function(self) -> CallTarget {
        // SAFETY: As for `function()`.
        let function = unsafe { bindings::ferro_tramp_last_function(self.0.as_ptr()) };
        CallTarget::new(function as u64)
    }

    /// Has ftrace use the code at `at` in place of its own: of functions that only this ops traces.
    ///
    /// # Safety
    ///
    /// It is a trampoline for this ops, which stays until ftrace says that the ops needs it no longer.
    pub(super) unsafe fn set_trampoline(self, at: usize, len: usize) {
        let ops = self.0.as_ptr();
        // SAFETY: By the type invariant it is there, and nobody else uses these fields. The caller guarantees what is there.
        unsafe {
            (*ops).trampoline = at;
            (*ops).trampoline_size = len;
            (*ops).flags |= bindings::FTRACE_OPS_FL_ALLOC_TRAMP as usize;
        }
    }

    /// It has no trampoline any more.
    pub(crate) fn clear_trampoline(self) {
        // SAFETY: By the type invariant it is there, and nobody else uses the field. Without one ftrace uses its own code.
        unsafe { (*self.0.as_ptr()).trampoline = 0 };
    }
}
