// SPDX-License-Identifier: GPL-2.0

//! Keeping the engine.
//!
//! Contexts: any.

use kernel::bindings;
use kernel::module::this_module;
use kernel::prelude::*;

/// A reference to this module.
///
/// # Invariants
///
/// Counted, until this is dropped.
pub(crate) struct InUse(());

impl InUse {
    /// Errors: -ENODEV if the module is going.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: It is this module, whose code runs.
        match unsafe { bindings::try_module_get(Self::module()) } {
            // INVARIANT: It has just been counted.
            true => Ok(Self(())),
            false => Err(ENODEV),
        }
    }

    fn module() -> *mut bindings::module {
        this_module::<crate::TrampolineEngine>().as_ptr()
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is counted. If it is the last reference, the module waits in its exit for the hook
        // that this is called from.
        unsafe { bindings::module_put(Self::module()) };
    }
}
