// SPDX-License-Identifier: GPL-2.0

//! Publishers of hooks, for the registry.
//!
//! Contexts: process; sleeps.

use ferro_sys::hook::HookRef;
use ferro_sys::hook::Publisher;
use kernel::prelude::*;

/// Returns the publisher of a hook that is not in the registry yet. It sets the target of the hook.
pub(crate) fn publisher_of(hook: HookRef) -> Result<Publisher> {
    // SAFETY: The registry makes a publisher only with its lock held, and only for a hook that has
    // none, so this is the only one. The hook exists as long as its `HookRef`s are used, and the
    // registry deletes it before its module is freed.
    unsafe { Publisher::new(hook) }
}
