// SPDX-License-Identifier: GPL-2.0

//! Rebuild of all trampolines by ftrace, and the start of the engine's detachment.
//!
//! Contexts: process, sleeps; without `ftrace_lock`, and without the engine's mutex, unless noted
//! otherwise.

use ferro_sys::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// True after [`begin_detach`]. Changes with `ftrace_lock` held.
static DETACHING: Atomic<bool> = Atomic::new(false);

/// Marks the engine as being detached: functions get no more sets and no more stubs. This cannot be
/// undone.
///
/// Holds `ftrace_lock` for the mark. So each change of functions or of sites runs either entirely
/// before or entirely after it.
pub(crate) fn begin_detach() {
    extern "C" fn mark() {
        DETACHING.store(true, Relaxed);
    }
    // SAFETY: The C function calls `mark()`, and sleeps, as this function's context allows.
    unsafe { bindings::ferro_tramp_locked(Some(mark)) };
}

/// Returns true after [`begin_detach`]. Context: any; does not change with `ftrace_lock` held.
pub(super) fn is_detaching() -> bool {
    DETACHING.load(Relaxed)
}

/// Proof that ftrace has rebuilt all trampolines. If the engine was being detached when the rebuild
/// began, no site calls its stubs and sets, and no task is in them.
pub(crate) struct Rebuilt {
    is_last: bool,
}

impl Rebuilt {
    /// Returns true if the engine was being detached when the rebuild began.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }
}

/// Rebuilds the trampolines of all ops, by the attached engine or by the kernel. Waits until no
/// task is in the old ones.
///
/// Errors: -ENODEV if ftrace has failed: the old ones stay callable and are never freed.
pub(crate) fn rebuild_all() -> Result<Rebuilt> {
    let is_last = is_detaching();
    // SAFETY: The C function has no arguments, and sleeps, as this function's context allows.
    to_result(unsafe { bindings::ftrace_renew_trampolines() })?;
    Ok(Rebuilt { is_last })
}
