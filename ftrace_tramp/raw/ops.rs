// SPDX-License-Identifier: GPL-2.0

//! A client's `struct ftrace_ops`, while ftrace asks for its trampoline to be made or freed.
//!
//! Contexts: process, sleeps.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_ftrace_tramp_core::CallTarget;
use ferro_sys::bindings;
use ferro_sys::same_offset;

same_offset!(
    ftrace_ops.flags,
    ftrace_ops.trampoline,
    ftrace_ops.trampoline_size,
);

/// Ops that ftrace works on.
///
/// # Invariants
///
/// Valid for `'a`. No other code changes its flags or its trampoline for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ops<'a>(NonNull<bindings::ftrace_ops>, PhantomData<&'a ()>);

impl Ops<'_> {
    /// Returns [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `ops` is NULL or valid for `'a`, and ftrace has it at rest: no other code changes its flags
    /// or its trampoline.
    pub(super) unsafe fn new(ops: *mut bindings::ftrace_ops) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(ops).map(|ops| Self(ops, PhantomData))
    }

    /// Returns the address, the key in the registry.
    pub(crate) fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    pub(super) fn as_non_null(self) -> NonNull<bindings::ftrace_ops> {
        self.0
    }

    fn flags(self) -> usize {
        // SAFETY: Valid by the type invariant, and no other code changes the flags.
        unsafe { (*self.0.as_ptr()).flags }
    }

    /// Returns true if the callback gets all registers.
    pub(crate) fn saves_regs(self) -> bool {
        self.flags() & bindings::FTRACE_OPS_FL_SAVE_REGS as usize != 0
    }

    /// Returns true for an ops of direct calls.
    pub(super) fn is_direct(self) -> bool {
        self.flags() & bindings::FTRACE_OPS_FL_DIRECT as usize != 0
    }

    /// Returns true if its callback may change where execution continues, as a livepatch does.
    pub(crate) fn changes_ip(self) -> bool {
        self.flags() & bindings::FTRACE_OPS_FL_IPMODIFY as usize != 0
    }

    /// Returns the address of its trampoline, regardless of its maker; 0 if it has none.
    pub(crate) fn trampoline(self) -> usize {
        // SAFETY: Valid by the type invariant, and no other code changes the field.
        unsafe { (*self.0.as_ptr()).trampoline }
    }

    /// Returns the function that its trampoline has to call now. Context: `ftrace_lock` held, as
    /// when ftrace asks for a trampoline.
    pub(crate) fn function(self) -> CallTarget {
        // SAFETY: Valid by the type invariant. The state that the function reads changes with
        // `ftrace_lock` only.
        let function = unsafe { bindings::ferro_tramp_function(self.0.as_ptr()) };
        CallTarget::new(function as u64)
    }

    /// Returns the function to call after ftrace has failed: a no-op if the ops has just been
    /// unregistered.
    pub(crate) fn last_function(self) -> CallTarget {
        // SAFETY: As for `function()`.
        let function = unsafe { bindings::ferro_tramp_last_function(self.0.as_ptr()) };
        CallTarget::new(function as u64)
    }

    /// Makes ftrace use the code at `at` instead of its own, for functions that only this ops
    /// traces.
    ///
    /// # Safety
    ///
    /// `at` is a trampoline for this ops, which stays until ftrace says that the ops no longer
    /// needs it.
    pub(super) unsafe fn set_trampoline(self, at: usize, len: usize) {
        let ops = self.0.as_ptr();
        // SAFETY: Valid by the type invariant, and no other code uses these fields. The caller
        // guarantees the code at `at`.
        unsafe {
            (*ops).trampoline = at;
            (*ops).trampoline_size = len;
            (*ops).flags |= bindings::FTRACE_OPS_FL_ALLOC_TRAMP as usize;
        }
    }

    /// Detaches the trampoline; ftrace then uses its own code.
    pub(crate) fn clear_trampoline(self) {
        // SAFETY: Valid by the type invariant, and no other code uses the field. Without one ftrace
        // uses its own code.
        unsafe { (*self.0.as_ptr()).trampoline = 0 };
    }
}
