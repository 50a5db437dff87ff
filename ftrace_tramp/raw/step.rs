// SPDX-License-Identifier: GPL-2.0

//! Steps of ftrace's updates of call sites.
//!
//! Contexts: process, sleeps; `ftrace_lock` held.

use core::marker::PhantomData;

use ferro_sys::bindings;

/// Phase of an update of call sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// ftrace is about to change sites.
    Before,
    /// ftrace has changed them.
    After,
    /// ftrace has failed: a site may still call its old target.
    Failed,
}

/// Step of an update of call sites.
///
/// # Invariants
///
/// `ftrace_lock` is held for `'a`. All ops with a trampoline, and all ops in sets that sites may
/// call, are valid for `'a`.
pub(crate) struct Step<'a> {
    phase: Phase,
    _lock: PhantomData<&'a ()>,
}

impl Step<'_> {
    /// Wraps a step.
    ///
    /// # Safety
    ///
    /// `step` is the value that ftrace passes to the hook, for `'a`.
    pub(super) unsafe fn new(step: u32) -> Self {
        // INVARIANT: ftrace holds its lock while it fires the hook. An ops that is being
        // unregistered stays valid until ftrace has changed sites, or failed.
        Self {
            phase: match step {
                bindings::ftrace_sets_step_FTRACE_SETS_CHANGE => Phase::Before,
                bindings::ftrace_sets_step_FTRACE_SETS_CHANGED => Phase::After,
                _ => Phase::Failed,
            },
            _lock: PhantomData,
        }
    }

    /// Returns the phase.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }
}
