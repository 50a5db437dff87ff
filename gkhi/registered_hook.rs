// SPDX-License-Identifier: GPL-2.0

//! Hooks of modules, as owned by Rust code.
//!
//! Contexts: process, sleeps; drop: any.
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

/// Registration of a hook, which ends when this is dropped.
///
/// The drop disarms the exits of the hook, and no CPU runs them through this hook afterwards. Their
/// owners still have to deregister them. In an exit, or if the caller cannot sleep, the drop takes
/// effect soon afterwards.
pub struct Identified(Option<KBox<Note>>);

impl Identified {
    /// Registers a hook.
    ///
    /// Context: process; sleeps.
    /// Errors: [`Error::Already`]; [`Error::NameTaken`]; [`Error::BadName`]; [`Error::BadHook`] if
    /// the hook is not a static; [`Error::ModuleGoes`]; [`Error::CannotWait`]; [`Error::NoMemory`].
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
