// SPDX-License-Identifier: GPL-2.0

//! Registry of the files in debugfs `gcov/`.
//!
//! Contexts: process, sleeps. Locks, outermost first: the lock that constructors take or the lock
//! of `builtin/tree.c`, `ENGINE`, the mutex of the list of owners, a file's, an owner's.
#![deny(unsafe_code)]

use core::ops::ControlFlow;

use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use ferro_sys::sync::refcounted::Shared;
use kernel::fmt;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::str::BStr;

use crate::file::File;
use crate::file::FileRef;
use crate::file::Usage;
use crate::namespace::Tree;
use crate::raw::hooks::Offer;
use crate::raw::object::Candidate;
use crate::raw::object::Name;
use crate::raw::object::Object;
use crate::raw::object::RejectReason;
use crate::raw::owner::ModuleId;
use crate::raw::tree;
use crate::raw::tree::Id;

/// Adapter that prints a reason with the kernel's formatter.
struct Reason<T>(T);

impl<T: core::fmt::Display> fmt::Display for Reason<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(&self.0, f)
    }
}

/// State of the engine.
struct Engine {
    tree: Tree,
    /// Files of each module.
    modules: RBTree<ModuleId, KVec<Id>>,
    persist: bool,
    /// Set once the engine takes no more objects.
    detaching: bool,
    /// Set if a removed file may still be in the dentry cache.
    stale: bool,
}

static ENGINE: StaticMutex<Option<Engine>> = static_mutex!(ferro_gcov_mutex, None);

/// Calls `f` with the engine. Files that `f` removes cannot be looked up when this returns.
fn with_engine<R>(f: impl FnOnce(&mut Engine) -> R) -> Option<R> {
    let mut guard = ENGINE.lock();
    let engine = guard.as_mut()?;
    let result = f(engine);
    let is_stale = core::mem::take(&mut engine.stale);
    drop(guard);
    if is_stale {
        tree::forget();
    }
    Some(result)
}

/// Prepares the engine for objects. Errors: -ENOMEM.
pub(crate) fn start(persist: bool) -> Result {
    let tree = Tree::new()?;
    *ENGINE.lock() = Some(Engine {
        tree,
        modules: RBTree::new(),
        persist,
        detaching: false,
        stale: false,
    });
    Ok(())
}

/// Refuses objects from now until [`stop`]: the engine is about to detach.
pub(crate) fn begin_detach() {
    let _ = with_engine(|engine| engine.detaching = true);
}

/// Returns the next object to give back.
pub(crate) fn give_back() -> Option<Object> {
    let mut guard = ENGINE.lock();
    let engine = guard.as_mut()?;
    loop {
        let (id, file) = engine.tree.from(Id::FIRST)?;
        if let Some(object) = file.pop() {
            return Some(object);
        }
        engine.tree.remove(id);
    }
}

/// Frees the engine.
pub(crate) fn stop() {
    let engine = ENGINE.lock().take();
    drop(engine);
}

/// Takes or refuses an object.
pub(crate) fn take(object: Candidate) -> Offer {
    let offer = with_engine(|engine| match engine.detaching {
        true => Offer::Detaching,
        false => engine.take(object),
    });
    offer.unwrap_or(Offer::Detaching)
}

/// Keeps the contents of a file after its objects were unloaded.
pub(crate) fn keep(name: &[u8], gcda: &[u8]) {
    let kept = with_engine(|engine| {
        let (id, file) = engine.file(Name::copy(name)?)?;
        let kept = file.keep(gcda);
        engine.remove_empty(id);
        kept
    });
    if let Some(Err(error)) = kept {
        pr_warn!(
            "{}: kept counters are lost: error {}\n",
            BStr::from_bytes(name),
            error.to_errno()
        );
    }
}

/// Removes the objects of a module being unloaded.
pub(crate) fn module_going(module: ModuleId) {
    let _ = with_engine(|engine| engine.module_going(module));
}

/// Calls `f` with the names in the namespace.
pub(crate) fn with_tree<R>(f: impl FnOnce(&Tree) -> R) -> Option<R> {
    ENGINE.lock().as_ref().map(|engine| f(&engine.tree))
}

/// Calls `f` with the files from `start` until it returns [`ControlFlow::Break`]. Returns the next
/// start, or `None` at the end.
pub(crate) fn files_from(
    start: Id,
    mut f: impl FnMut(&File) -> Result<ControlFlow<()>>,
) -> Result<Option<Id>> {
    let guard = ENGINE.lock();
    let Some(engine) = guard.as_ref() else {
        return Ok(None);
    };
    let mut start = start;
    while let Some((id, file)) = engine.tree.from(start) {
        start = id.after();
        if f(file)?.is_break() {
            return Ok(Some(start));
        }
    }
    Ok(None)
}

/// Resets a file and removes it if none of its objects is loaded.
pub(crate) fn reset(file: &File) {
    if file.reset() == Usage::InUse {
        return;
    }
    let _ = with_engine(|engine| {
        if let Ok(Some(id)) = engine.tree.find(file.name()) {
            engine.remove_empty(id);
        }
    });
}

/// Resets all files.
pub(crate) fn reset_all() {
    let _ = with_engine(|engine| {
        let mut empty = KVec::new();
        for (id, file) in engine.tree.iter() {
            if file.reset() == Usage::Empty && empty.push(id, GFP_KERNEL).is_err() {
                pr_warn!("no memory to remove an empty file\n");
            }
        }
        for id in empty {
            engine.remove_empty(id);
        }
    });
}

impl Engine {
    /// Takes or refuses an object.
    fn take(&mut self, object: Candidate) -> Offer {
        let mut name = [0; 128];
        match object.check(&mut name) {
            Ok(loaded) => match self.add(loaded) {
                Ok(()) => Offer::Done,
                Err(error) => {
                    pr_warn!("an object gets no file: error {}\n", error.to_errno());
                    Offer::NoMemory
                }
            },
            Err((RejectReason::Refused(refusal), name)) => {
                let refusal = Reason(refusal);
                pr_warn!("{} is refused: {refusal}\n", BStr::from_bytes(name));
                Offer::Done
            }
            Err((RejectReason::RefusedProfile(refusal), name)) => {
                let refusal = Reason(refusal);
                pr_warn!("{}: Rust code: {refusal}\n", BStr::from_bytes(name));
                Offer::Done
            }
            Err((RejectReason::Error(error), name)) => {
                let name = BStr::from_bytes(name);
                pr_warn!("{name} has no file: error {}\n", error.to_errno());
                Offer::NoMemory
            }
        }
    }

    /// Returns the file with a name; creates it if needed.
    fn file(&mut self, name: Name) -> Result<(Id, FileRef)> {
        if let Some(id) = self.tree.find(&name)? {
            return Ok((id, self.tree.get(id).ok_or(ENOENT)?.clone()));
        }
        let file = Shared::new(File::new(name))?;
        Ok((self.tree.add(file.clone())?, file))
    }

    fn add(&mut self, object: Object) -> Result {
        let (id, file) = self.file(object.name()?)?;
        let added = self
            .add_to_module(object.module(), id)
            .and_then(|()| file.add(object));
        if added.is_err() {
            self.remove_empty(id);
        }
        added
    }

    /// Records that a file has objects of a module, if they are not the kernel's.
    fn add_to_module(&mut self, module: Option<ModuleId>, id: Id) -> Result {
        let Some(module) = module else {
            return Ok(());
        };
        match self.modules.get_mut(&module) {
            Some(ids) => ids.push(id, GFP_KERNEL)?,
            None => {
                let mut ids = KVec::new();
                ids.push(id, GFP_KERNEL)?;
                self.modules
                    .try_create_and_insert(module, ids, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    fn module_going(&mut self, module: ModuleId) {
        for id in self.modules.remove(&module).unwrap_or_default() {
            let usage = self
                .tree
                .get(id)
                .map(|file| file.module_going(module, self.persist));
            if usage == Some(Usage::Empty) {
                self.remove_empty(id);
            }
        }
    }

    /// Removes a file if it is empty.
    fn remove_empty(&mut self, id: Id) {
        let file = self.tree.get(id);
        if file.is_some_and(|file| file.usage() == Usage::Empty) {
            self.tree.remove(id);
            self.stale = true;
        }
    }
}
