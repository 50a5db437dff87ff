// SPDX-License-Identifier: GPL-2.0

//! The files that there are.
//!
//! Contexts: process, sleeps. Locks: `ENGINE`, within the lock that constructors take; see `raw/mutex.rs` for those within it. Files
//! of debugfs are made and removed with it held: none of their operations takes it while debugfs waits for that.
#![deny(unsafe_code)]

use ferro_core::gcov::Refusal;
use ferro_sys::sync::counted::Shared;
use kernel::fmt;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::str::BStr;
use kernel::sync::aref::ARef;

use crate::file::File;
use crate::file::Left;
use crate::raw::home::ModuleId;
use crate::raw::mutex::EngineMutex;
use crate::raw::object::Arrived;
use crate::raw::object::Loaded;
use crate::raw::object::NotTaken;
use crate::table::Key;
use crate::table::Named;
use crate::table::Room;
use crate::table::Table;
use crate::tree::Place;
use crate::tree::Tree;

/// A file that others keep too.
pub(crate) type FileRef = ARef<Shared<File>>;

struct Entry {
    /// Removed before the file is given up.
    place: Option<Place>,
    file: FileRef,
}

impl Named for Entry {
    fn name(&self) -> &[u8] {
        self.file.name()
    }
}

/// For the log.
struct Shown(Refusal);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(&self.0, f)
    }
}

/// What the engine knows.
struct Engine {
    files: Table<Entry>,
    /// The files of modules.
    modules: RBTree<ModuleId, KVec<Key>>,
    /// Debugfs, once it is there.
    tree: Option<Tree>,
    persist: bool,
    /// No object is taken any more.
    leaving: bool,
}

static ENGINE: EngineMutex<Option<Engine>> = EngineMutex::new(None);

/// Makes the engine ready to take objects.
pub(crate) fn start(persist: bool) {
    *ENGINE.lock() = Some(Engine {
        files: Table::new(),
        modules: RBTree::new(),
        tree: None,
        persist,
        leaving: false,
    });
}

/// Shows all files in debugfs, and from here on those that come.
///
/// Errors: -EEXIST if somebody else has debugfs `gcov/`, -ENOMEM; if there is no debugfs that is none.
pub(crate) fn show() -> Result {
    let mut tree = match Tree::new() {
        Err(error) if error == EPERM || error == ENODEV => {
            pr_warn!("no debugfs, and so no files\n");
            return Ok(());
        }
        tree => tree?,
    };
    let mut guard = ENGINE.lock();
    let engine = guard.as_mut().ok_or(ENODEV)?;
    for entry in engine.files.values_mut() {
        entry.place = tree.add(&entry.file);
    }
    engine.tree = Some(tree);
    Ok(())
}

/// The engine is about to go: no object is taken any more, and there are no files in debugfs.
pub(crate) fn leave() {
    let mut guard = ENGINE.lock();
    let Some(engine) = guard.as_mut() else {
        return;
    };
    engine.leaving = true;
    let mut tree = engine.tree.take();
    for entry in engine.files.values_mut() {
        if let (Some(place), Some(tree)) = (entry.place.take(), tree.as_mut()) {
            tree.remove(place);
        }
    }
}

/// The next object to give back.
pub(crate) fn give_back() -> Option<Loaded> {
    let mut guard = ENGINE.lock();
    let engine = guard.as_mut()?;
    loop {
        let (key, entry) = engine.files.from(Key::FIRST)?;
        if let Some(object) = entry.file.pop() {
            return Some(object);
        }
        drop(engine.files.remove(key));
    }
}

/// The engine is gone.
pub(crate) fn stop() {
    *ENGINE.lock() = None;
}

/// An object has come. Whether it is taken, or refused for good; if not, there was no memory, and the next engine may have it.
pub(crate) fn arrive(object: Arrived) -> bool {
    let mut guard = ENGINE.lock();
    let Some(engine) = guard.as_mut().filter(|engine| !engine.leaving) else {
        return false;
    };
    let mut name = [0; 128];
    match object.check(&mut name) {
        Ok(loaded) => {
            let added = engine.add(loaded).inspect_err(|error| {
                pr_warn!("an object has no file: error {}\n", error.to_errno());
            });
            added.is_ok()
        }
        Err((NotTaken::Refused(refusal), name)) => {
            let refusal = Shown(refusal);
            pr_warn!("{} is refused: {refusal}\n", BStr::from_bytes(name));
            true
        }
        Err((NotTaken::Error(error), name)) => {
            let name = BStr::from_bytes(name);
            pr_warn!("{name} has no file: error {}\n", error.to_errno());
            false
        }
    }
}

/// The contents of a file whose objects have gone.
pub(crate) fn keep(name: &[u8], gcda: &[u8]) {
    let mut guard = ENGINE.lock();
    let Some(engine) = guard.as_mut() else {
        return;
    };
    let kept = engine.file(name).and_then(|(key, file)| {
        let kept = file.keep(gcda);
        engine.remove_empty(key);
        kept
    });
    if let Err(error) = kept {
        pr_warn!(
            "{}: what was kept is lost: error {}\n",
            BStr::from_bytes(name),
            error.to_errno()
        );
    }
}

/// A module goes.
pub(crate) fn going(module: ModuleId) {
    if let Some(engine) = ENGINE.lock().as_mut() {
        engine.going(module);
    }
}

/// Calls `f` with files from a place on, until it says that this is enough. Returns where to go on; `None` at the end.
pub(crate) fn files_from(
    start: Key,
    mut f: impl FnMut(&File) -> Result<Enough>,
) -> Result<Option<Key>> {
    let guard = ENGINE.lock();
    let Some(engine) = guard.as_ref() else {
        return Ok(None);
    };
    let mut start = start;
    while let Some((key, entry)) = engine.files.from(start) {
        start = key.after();
        if f(&entry.file)? == Enough::Yes {
            return Ok(Some(start));
        }
    }
    Ok(None)
}

/// Whether [`files_from`] has given enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

/// Resets a file, which goes if nothing is loaded.
pub(crate) fn reset(file: &File) {
    if file.reset() == Left::Something {
        return;
    }
    if let Some(engine) = ENGINE.lock().as_mut() {
        if let Some(key) = engine.files.find(file.name()) {
            engine.remove_empty(key);
        }
    }
}

/// Resets all files.
pub(crate) fn reset_all() {
    let mut guard = ENGINE.lock();
    let Some(engine) = guard.as_mut() else {
        return;
    };
    let mut empty = KVec::new();
    for (key, entry) in engine.files.iter() {
        if entry.file.reset() == Left::Nothing && empty.push(*key, GFP_KERNEL).is_err() {
            pr_warn!("no memory to remove an empty file\n");
        }
    }
    for key in empty {
        engine.remove_empty(key);
    }
}

impl Engine {
    /// The file with a name, made if there is none.
    fn file(&mut self, name: &[u8]) -> Result<(Key, FileRef)> {
        if let Some(key) = self.files.find(name) {
            let entry = self.files.get(key).ok_or(ENOENT)?;
            return Ok((key, entry.file.clone()));
        }
        let room = Room::new()?;
        let file = Shared::new(File::new(name)?)?;
        let place = self.tree.as_mut().and_then(|tree| tree.add(&file));
        let entry = Entry {
            place,
            file: file.clone(),
        };
        Ok((self.files.insert(entry, room), file))
    }

    fn add(&mut self, object: Loaded) -> Result {
        let mut name = KVec::new();
        object.name(&mut name)?;
        let (key, file) = self.file(&name)?;
        let added = self
            .remember(object.module(), key)
            .and_then(|()| file.add(object));
        if added.is_err() {
            self.remove_empty(key);
        }
        added
    }

    /// A file has objects of a module.
    fn remember(&mut self, module: Option<ModuleId>, key: Key) -> Result {
        let Some(module) = module else {
            return Ok(());
        };
        match self.modules.get_mut(&module) {
            Some(keys) => keys.push(key, GFP_KERNEL)?,
            None => {
                let mut keys = KVec::new();
                keys.push(key, GFP_KERNEL)?;
                self.modules
                    .try_create_and_insert(module, keys, GFP_KERNEL)?;
            }
        }
        Ok(())
    }

    fn going(&mut self, module: ModuleId) {
        for key in self.modules.remove(&module).unwrap_or_default() {
            let left = self
                .files
                .get(key)
                .map(|entry| entry.file.going(module, self.persist));
            if left == Some(Left::Nothing) {
                self.remove_empty(key);
            }
        }
    }

    /// Removes a file if there is nothing in it.
    fn remove_empty(&mut self, key: Key) {
        let entry = self.files.get(key);
        if entry.is_none_or(|entry| entry.file.left() == Left::Something) {
            return;
        }
        if let Some(mut entry) = self.files.remove(key) {
            if let (Some(place), Some(tree)) = (entry.place.take(), self.tree.as_mut()) {
                tree.remove(place);
            }
        }
    }
}
