// SPDX-License-Identifier: GPL-2.0

//! Taking a hook over, to publish exits on it.
//!
//! Contexts: process; sleeps.

use ferro_sys::hook::HookRef;
use ferro_sys::hook::Site;
use kernel::prelude::*;

/// The calling side of a hook that is not in the registry yet.
pub(crate) fn site_of(hook: HookRef) -> Result<Site> {
    // SAFETY: The registry makes a site for a hook only with its lock held and when it has none of this hook, so that there is
    // no other; the hook is there as long as its `HookRef`s are used, and the registry deletes it before its module goes.
    unsafe { Site::new(hook) }
}
