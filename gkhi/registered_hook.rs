// SPDX-License-Identifier: GPL-2.0

//! Hooks of modules, as owned by Rust code.
//!
//! Contexts: process, sleeps; drop: any.
#![deny(unsafe_code)]

use ferro_sys::hook::typed::Hook;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::DeferredRelease;
use kernel::prelude::*;

use crate::context::check_context;
use crate::error::Error;
use crate::hook_registration::register_hook;
use crate::raw::deferred_release::set_hook;
use crate::unregister::release_or_defer;

/// Registration of a hook, which ends when this is dropped.
///
/// The drop disarms the exits of the hook, and no CPU runs them through this hook afterwards. Their
/// owners still have to deregister them. In an exit, or if the caller cannot sleep, the drop takes
/// effect soon afterwards.
pub struct RegisteredHook(Option<KBox<DeferredRelease>>);

impl RegisteredHook {
    /// Registers a hook.
    ///
    /// Context: process; sleeps.
    /// Errors: [`Error::Already`]; [`Error::NameTaken`]; [`Error::BadName`]; [`Error::BadHook`] if
    /// the hook is not a static; [`Error::ModuleGoes`]; [`Error::CannotWait`]; [`Error::NoMemory`].
    pub fn register<H: Spec>(hook: &'static Hook<H>) -> Result<Self, Error> {
        check_context()?;
        let mut release = DeferredRelease::new().map_err(|_| Error::NoMemory)?;
        set_hook(&mut release, register_hook(hook.to_ref(), true)?);
        Ok(Self(Some(release)))
    }
}

impl Drop for RegisteredHook {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release_or_defer(release);
        }
    }
}
