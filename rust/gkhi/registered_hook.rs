// SPDX-License-Identifier: GPL-2.0

//! Hooks that modules bring and take away.
//!
//! Contexts: process, sleeps; dropping one anywhere.
#![deny(unsafe_code)]

use ferro_sys::hook::typed::Hook;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::Note;
use kernel::prelude::*;

use crate::context::check_context;
use crate::error::Error;
use crate::hook_registration::identify;
use crate::raw::deferred_release::set_hook;
use crate::unregister::finish;

/// A hook that is known until this is dropped.
///
/// Exits that are armed then are disarmed, and no CPU is in them on account of this hook afterwards; what is
/// left for their owners is to deregister them. If it is dropped in an exit, or where one may not sleep, that happens soon
/// afterwards.
pub struct Identified(Option<KBox<Note>>);

impl Identified {
    /// Makes a hook known.
    ///
    /// Context: process; sleeps.
    /// Errors: [`Error::Already`]; [`Error::NameTaken`]; [`Error::BadName`]; [`Error::BadHook`] if
    /// it is not a static; [`Error::ModuleGoes`]; [`Error::CannotWait`]; [`Error::NoMemory`].
    pub fn register<H: Spec>(hook: &'static Hook<H>) -> Result<Self, Error> {
        check_context()?;
        let mut note = Note::new().map_err(|_| Error::NoMemory)?;
        set_hook(&mut note, identify(hook.to_ref(), true)?);
        Ok(Self(Some(note)))
    }
}

impl Drop for Identified {
    fn drop(&mut self) {
        if let Some(note) = self.0.take() {
            finish(note);
        }
    }
}
