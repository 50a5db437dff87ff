// SPDX-License-Identifier: GPL-2.0

//! Hooks that modules bring and take away.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use core::any::TypeId;

use ferro_sys::hook::typed::Hook;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::HookRef;

use crate::error::Error;
use crate::registry;

/// A hook that is known until this is dropped.
///
/// Exits that are armed then are disarmed, and no CPU is in them on account of this hook afterwards; what is
/// left for their owners is to deregister them.
pub struct Identified(HookRef);

impl Identified {
    /// Makes a hook known.
    ///
    /// Errors: [`Error::Already`]; [`Error::NameTaken`]; [`Error::BadName`]; [`Error::BadHook`] if
    /// it is not a static; [`Error::NoMemory`].
    pub fn new<H: Spec>(hook: &'static Hook<H>) -> Result<Self, Error> {
        let hook = hook.to_ref();
        registry::identify(hook, Some(TypeId::of::<H>()))?;
        Ok(Self(hook))
    }
}

impl Drop for Identified {
    fn drop(&mut self) {
        // Its module may be going: nothing may be left, so that a lack of memory is waited out.
        let _ = registry::until_memory(|| registry::delete(self.0));
    }
}
