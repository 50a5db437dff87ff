// SPDX-License-Identifier: GPL-2.0

//! Registration and deletion of hooks.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_core::hooks::Op;
use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::hook::count_of;
use ferro_sys::hook::is_going;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::ModuleName;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::context::check_context;
use crate::error::Error;
use crate::hook_entry::HookEntry;
use crate::kvec_lists::Hook;
use crate::name::is_name;
use crate::name::is_reserved;
use crate::quiesce::finish_change;
use crate::raw::deferred_release::HookId;
use crate::raw::locks::lock_files;
use crate::raw::publisher::publisher_of;
use crate::registry::with;

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

pub(crate) fn delete_where(wanted: impl Fn(&Hook) -> bool) -> Result<(), Error> {
    check_context()?;
    let lock_files = lock_files();
    // The retired targets leave this block, because waiting for them needs the registry unlocked.
    let (retire_list, entry, files, mut watched) = with(|registry| {
        let mut hooks = registry.table.hooks().iter();
        let hook = hooks.find(|h| wanted(h)).ok_or(Error::Unregistered)?;
        let (id, mut ids) = (hook.id, KVec::new());
        for exit in hook.exits() {
            ids.push(exit.id, GFP_KERNEL)?;
        }
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        let watched = registry.watch(&ids)?;
        registry.table.prepare_delete(id)?;
        let (retire_list, _) = registry.change(Op::Disarm, &ids)?;
        // This cannot fail: the table has room.
        let entry = registry.table.delete(id).ok();
        for id in ids {
            if let Some(file) = registry.table.exit_mut(id).and_then(|e| e.body.file.take()) {
                let _ = files.push_within_capacity(file);
            }
        }
        Ok::<_, Error>((retire_list, entry, files, watched))
    })?;
    drop(files);
    let (dir, publisher) = entry.map_or((None, None), |entry| (entry.dir, Some(entry.publisher)));
    drop(dir);
    drop(lock_files);
    // An exit that still sleeps where it must not keeps the data that it needs.
    let _ = finish_change(retire_list, &mut watched);
    drop(publisher);
    Ok(())
}
