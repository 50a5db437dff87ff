// SPDX-License-Identifier: GPL-2.0

//! Taking a hook over, to publish exits on it.
//!
//! Contexts: process; sleeps.

use ferro_sys::hook::HookRef;
use ferro_sys::hook::Publisher;
use kernel::prelude::*;

/// The right to say what a hook calls that is not in the registry yet.
pub(crate) fn publisher_of(hook: HookRef) -> Result<Publisher> {
    // SAFETY: The registry makes one for a hook only with its lock held and when it has none of this hook, so that there is
    // no other; the hook is there as long as its `HookRef`s are used, and the registry deletes it before its module goes.
    unsafe { Publisher::new(hook) }
}
