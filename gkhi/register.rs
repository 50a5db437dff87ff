// SPDX-License-Identifier: GPL-2.0

//! Registration of exits.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_gkhi_core::Priority;
use ferro_sys::hook::is_going;
use ferro_sys::hook::is_lasting_text;
use ferro_sys::hook::Condition;
use ferro_sys::hook::Context;
use ferro_sys::hook::Counters;
use ferro_sys::hook::Exit as Node;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Parts;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::debugfs_nodes;
use crate::debugfs_nodes::lock_files;
use crate::entries::ExitEntry;
use crate::entries::ExitObject;
use crate::entries::HookEntry;
use crate::error::check_context;
use crate::error::Error;
use crate::kvec_lists::Exit;
use crate::raw::ExitId;
use crate::registry::is_name;
use crate::registry::with;

/// Properties that the hook must have, as the type of a Rust exit describes them.
pub(crate) struct Shape {
    pub(crate) params: &'static CStr,
    pub(crate) modifiable: bool,
    pub(crate) has_return: bool,
    pub(crate) context: Context,
    /// The hook of the exit's type; `None` for a hook of C.
    pub(crate) defined: Option<HookRef>,
}

/// Description of an exit to register.
pub(crate) struct NewExit<'a> {
    pub(crate) hook: &'a CStr,
    pub(crate) name: &'a CStr,
    pub(crate) priority: Priority,
    pub(crate) params: u32,
    pub(crate) parts: Parts,
    pub(crate) shape: Option<Shape>,
    /// An address in the module that registers the exit.
    pub(crate) origin: usize,
}

/// Returns true if an exit that was compiled for `shape` can be called by the hook of `entry`.
///
/// A hook defined in Rust has to be the static from which the exit's type was made. For a hook
/// defined in C only the names of parameters can be compared. The `unsafe` declaration of the
/// exit's type promises that the types are right.
fn fits(shape: &Shape, entry: &HookEntry) -> bool {
    let hook = entry.publisher.hook();
    let rest = hook
        .params()
        .to_bytes()
        .strip_prefix(shape.params.to_bytes());
    let same = match shape.defined {
        Some(defined) => entry.typed && defined == hook,
        None => !entry.typed && shape.modifiable == hook.is_modifiable(),
    };
    same && shape.has_return == hook.has_return()
        && shape.context == hook.context()
        && rest.is_some_and(|r| r.is_empty() || r.starts_with(b",") || shape.params.is_empty())
}

/// Registers an exit, or logs the reason for refusing it. Returns its number and its counters.
pub(crate) fn register(new: &NewExit<'_>) -> Result<(ExitId, Arc<Counters>), Error> {
    try_register(new).inspect_err(|error| error.log_refusal(new.hook, Some(new.name)))
}

fn try_register(new: &NewExit<'_>) -> Result<(ExitId, Arc<Counters>), Error> {
    check_context()?;
    if !is_name(new.name) {
        return Err(Error::BadName);
    }
    if !is_lasting_text(new.parts.address()) {
        return Err(Error::NoCode);
    }
    let _files = lock_files();
    with(|registry| {
        let record = new.parts.record_address();
        if [new.parts.address(), record, new.origin]
            .into_iter()
            .any(is_going)
        {
            return Err(Error::ModuleGoes);
        }
        let same = |e: &Exit| record != 0 && e.body.parts.record_address() == record;
        if registry.table.exits().any(same) {
            return Err(Error::Already);
        }
        let hook = registry
            .hook(|h| h.name() == new.hook)
            .ok_or(Error::NoHook)?;
        let (hook_id, hook_ref) = (hook.id, hook.body.publisher.hook());
        if new.params > hook_ref.count() {
            return Err(Error::TooManyParams);
        }
        if new.shape.as_ref().is_some_and(|s| !fits(s, &hook.body)) {
            return Err(Error::OtherParams);
        }
        if new.parts.condition() == Condition::CpusStopped && !hook_ref.can_stop() {
            return Err(Error::CannotStop);
        }
        if hook.exits().iter().any(|e| *e.body.name == *new.name) {
            return Err(Error::NameTaken);
        }
        let counters = Counters::new(&new.parts).map_err(|_| Error::NoMemory)?;
        let counters = Arc::new(counters, GFP_KERNEL)?;
        let node = Node::new(&new.parts, hook_ref, counters.clone());
        let entry = ExitEntry {
            name: CString::try_from_fmt(fmt!("{}", new.name)).map_err(|_| Error::NoMemory)?,
            owner: ModuleName::of(new.origin),
            params: new.params,
            node: Arc::new(node, GFP_KERNEL)?,
            counters: counters.clone(),
            parts: new.parts,
            readers: hook.body.publisher.readers().clone(),
            quiet: true,
            armings: 0,
            file: None,
            origin: new.origin,
            object: None,
        };
        let id = registry.table.register(hook_id, new.priority, entry)?;
        let dir = registry.hook(|h| h.publisher.hook() == hook_ref);
        let dir = dir.and_then(|h| h.body.dir.as_ref());
        // Debugfs is a convenience: the exit works without its file.
        let file = dir.and_then(|dir| debugfs_nodes::exit_file(dir, new.name, id).ok());
        if let Some(exit) = registry.table.exit_mut(id) {
            exit.body.file = file;
        }
        Ok((ExitId(id), counters))
    })
}

/// Gives the registry the Rust object of an exit.
pub(crate) fn set_object(id: ExitId, object: KBox<dyn ExitObject>) {
    let mut object = Some(object);
    with(|registry| {
        if let Some(exit) = registry.table.exit_mut(id.0) {
            exit.body.object = object.take();
        }
    });
    // If the exit has just been deregistered, its object remains here. It has no calls, and is
    // dropped without the lock.
}
