// SPDX-License-Identifier: GPL-2.0

//! Registration and deletion of hooks.
//!
//! Contexts: process; sleeps. Drop of a [`RegisteredHook`]: any.
#![deny(unsafe_code)]

use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::hook::count_of;
use ferro_sys::hook::is_going;
use ferro_sys::hook::typed::Hook;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::DeferredRelease;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::ModuleName;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::debugfs_nodes::lock_files;
use crate::entries::HookEntry;
use crate::error::check_context;
use crate::error::Error;
use crate::raw::publisher_of;
use crate::raw::set_hook;
use crate::raw::HookId;
use crate::registry::is_name;
use crate::registry::is_reserved;
use crate::registry::with;
use crate::transaction::delete_where;
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

/// Registers a hook, or logs the reason for refusing it, and returns its number. `typed` is true
/// for a hook that was defined in Rust.
pub(crate) fn register_hook(hook: HookRef, typed: bool) -> Result<HookId, Error> {
    let name = hook.name().unwrap_or_default();
    try_register_hook(hook, typed).inspect_err(|error| error.log_refusal(name, None))
}

fn try_register_hook(hook: HookRef, typed: bool) -> Result<HookId, Error> {
    check_context()?;
    let name = hook.name().ok_or(Error::BadName)?;
    if !is_name(name) || is_reserved(name) {
        return Err(Error::BadName);
    }
    // A hook on the heap would outlive its module.
    if !hook.is_sound() || !hook.is_static() {
        return Err(Error::BadHook);
    }
    if !typed && usize::try_from(hook.count()) != Ok(count_of(hook.params())) {
        return Err(Error::BadHook);
    }
    let _files = lock_files();
    with(|registry| {
        if is_going(hook.address()) {
            return Err(Error::ModuleGoes);
        }
        if registry.hook(|h| h.publisher.hook() == hook).is_some() {
            return Err(Error::Already);
        }
        if registry.hook(|h| h.name() == name).is_some() {
            return Err(Error::NameTaken);
        }
        let dispatches = PerCpuCounter::new().map_err(|_| Error::NoMemory)?;
        let entry = HookEntry {
            publisher: publisher_of(hook).map_err(|_| Error::NoMemory)?,
            owner: ModuleName::of(hook.address()),
            typed,
            dispatches: Arc::new(dispatches, GFP_KERNEL)?,
            past_hits: 0,
            dir: registry
                .root
                .as_ref()
                .and_then(|root| root.dir().subdir(name).ok()),
        };
        let id = registry.table.identify(hook.is_exclusive(), entry)?;
        Ok(HookId(id))
    })
}

/// Deletes a hook. Its exits stay registered, without a hook.
pub(crate) fn delete(hook: HookRef) -> Result<(), Error> {
    delete_where(|h| h.body.publisher.hook() == hook)
}
