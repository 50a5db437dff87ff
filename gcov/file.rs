// SPDX-License-Identifier: GPL-2.0

//! A file's contents: the loaded objects with its name, and the kept counters of unloaded ones.
//!
//! Several objects have one name if several modules include a source file, or if a module is loaded
//! again. The file has the sum of the counters of all objects that are of the first object's
//! compilation.
//!
//! Contexts: process; sleeps. Locks: the file's mutex, then an owner's.
#![deny(unsafe_code)]

use ferro_gcov_core::is_profile;
use ferro_gcov_core::merge;
use ferro_gcov_core::merge_profiles;
use ferro_gcov_core::profile_counters;
use ferro_gcov_core::Gcda;
use ferro_sys::sync::refcounted::Shared;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::aref::ARef;
use kernel::sync::Mutex;

use crate::objects::Objects;
use crate::raw::object::Build;
use crate::raw::object::Name;
use crate::raw::object::Object;
use crate::raw::owner::ModuleId;

/// A counted reference to a file.
pub(crate) type FileRef = ARef<Shared<File>>;

/// A file of debugfs `gcov/`.
#[pin_data]
pub(crate) struct File {
    /// Name in the compiler's form.
    name: Name,
    #[pin]
    state: Mutex<State>,
}

struct State {
    loaded: Objects,
    /// Contents kept from unloaded objects, of the same compilation as the first loaded object.
    kept: Option<KBox<KVVec<u8>>>,
}

/// Result of removing objects or contents from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The file still has objects or kept contents.
    InUse,
    /// The file is empty and has to be removed.
    Empty,
}

fn buffer(len: usize) -> Result<KVVec<u8>> {
    Ok(KVVec::zeroed(len, GFP_KERNEL | __GFP_NOWARN)?)
}

/// Returns a copy of bytes. Errors: -ENOMEM.
fn copy_of(bytes: &[u8]) -> Result<KVVec<u8>> {
    let mut copy = KVVec::new();
    copy.extend_from_slice(bytes, GFP_KERNEL | __GFP_NOWARN)?;
    Ok(copy)
}

/// Returns the current contents of an object's file.
fn contents_of(object: &Object) -> Result<KVVec<u8>> {
    let mut bytes = buffer(object.max_len())?;
    let len = object.write(&mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

fn push_all(to: &mut KVVec<u64>, values: impl Iterator<Item = u64>) -> Result {
    for value in values {
        to.push(value, GFP_KERNEL | __GFP_NOWARN)?;
    }
    Ok(())
}

/// Range of the checksum's bytes. The checksum is 0 in contents that mainline has kept.
const CHECKSUM: core::ops::Range<usize> = 12..16;

/// Merges two files. Returns `None` if they are not of one compilation.
fn merged(older: &mut KVVec<u8>, newer: &KVVec<u8>) -> Result<Option<KVVec<u8>>> {
    if is_profile(newer) {
        let mut bytes = copy_of(newer)?;
        return Ok(merge_profiles(&mut bytes, older).ok().map(|()| bytes));
    }
    let mut bytes = buffer(older.len().checked_add(newer.len()).ok_or(ENOMEM)?)?;
    let b = Gcda::parse(newer).map_err(|_| EIO)?;
    let a = Gcda::parse(older).map_err(|_| EIO)?;
    if a.format().checksum && a.checksum() == 0 {
        if let (Some(to), Some(from)) = (older.get_mut(CHECKSUM), newer.get(CHECKSUM)) {
            to.copy_from_slice(from);
        }
    }
    let a = Gcda::parse(older).map_err(|_| EIO)?;
    Ok(match merge(&a, &b, &mut bytes) {
        Ok(len) => {
            bytes.truncate(len);
            Some(bytes)
        }
        Err(_) => None,
    })
}

/// Returns true if kept contents are of an object's compilation.
fn fits(kept: &[u8], build: Build) -> bool {
    let Build::Gcda {
        version,
        stamp,
        checksum,
    } = build
    else {
        // The merge of two profiles checks this.
        return is_profile(kept);
    };
    Gcda::parse(kept).is_ok_and(|kept| {
        kept.version() == version
            && kept.stamp() == stamp
            && (kept.checksum() == checksum || kept.checksum() == 0)
    })
}

impl File {
    /// Creates an empty file.
    pub(crate) fn new(name: Name) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            name,
            state <- new_mutex!(State {
                loaded: Objects::default(),
                kept: None,
            }),
        }? Error)
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the name for the log.
    pub(crate) fn shown(&self) -> &BStr {
        BStr::from_bytes(&self.name)
    }

    /// Adds an object, unless the file has it already: the profile of a module being loaded while
    /// the engine takes over is offered twice. Errors: -ENOMEM.
    pub(crate) fn add(&self, object: Object) -> Result {
        let mut state = self.state.lock();
        let is_same = |other: &Object| other.is_profile() && other.module() == object.module();
        if object.is_profile() && state.loaded.iter().any(is_same) {
            return Ok(());
        }
        state.loaded.push(object)?;
        let first = state.loaded.first().map(Object::build);
        let new = state.loaded.others().last().map(Object::build);
        if new.is_some() && new != first {
            pr_warn!(
                "{}: another build is loaded; it has no data until the first is unloaded\n",
                self.shown()
            );
        }
        self.check_kept(&mut state);
        Ok(())
    }

    fn warn_dropped(&self) {
        pr_warn!(
            "{}: another build: kept counters are dropped\n",
            self.shown()
        );
    }

    /// Drops the kept contents if the first object is of another build.
    fn check_kept(&self, state: &mut State) {
        let State { loaded, kept } = state;
        if let (Some(first), Some(bytes)) = (loaded.first(), kept.as_ref()) {
            if !fits(bytes, first.build()) {
                self.warn_dropped();
                *kept = None;
            }
        }
    }

    /// Keeps contents that another exporter has kept from unloaded objects.
    pub(crate) fn keep(&self, gcda: &[u8]) -> Result {
        Gcda::parse(gcda).map_err(|_| EINVAL)?;
        let mut bytes = copy_of(gcda)?;
        let mut state = self.state.lock();
        match &mut state.kept {
            // The module may have been loaded and unloaded again since.
            Some(newer) => {
                if let Some(both) = merged(&mut bytes, newer)? {
                    **newer = both;
                }
            }
            none => *none = Some(KBox::new(bytes, GFP_KERNEL)?),
        }
        self.check_kept(&mut state);
        Ok(())
    }

    /// Removes the objects of a module being unloaded; keeps their counters if `persist`.
    pub(crate) fn module_going(&self, module: ModuleId, persist: bool) -> Usage {
        let mut state = self.state.lock();
        while let Some(index) = state.loaded.find(module) {
            if persist {
                if let Err(error) = self.save(&mut state, index) {
                    pr_warn!(
                        "{}: its counters are lost: error {}\n",
                        self.shown(),
                        error.to_errno()
                    );
                }
            }
            state.loaded.remove(index);
        }
        self.check_kept(&mut state);
        state.usage()
    }

    fn save(&self, state: &mut State, index: usize) -> Result {
        let State { loaded, kept } = state;
        let (Some(first), Some(object)) = (loaded.first(), loaded.iter().nth(index)) else {
            return Ok(());
        };
        if object.build() != first.build() {
            return Err(EEXIST);
        }
        // Keeps nothing if no code of a Rust module has run.
        if kept.is_none() && object.is_profile() && object.is_zero()? {
            return Ok(());
        }
        let new = contents_of(object)?;
        match kept {
            Some(kept) => match merged(kept, &new)? {
                Some(both) => **kept = both,
                // The functions differ, although the stamps are equal.
                None => {
                    self.warn_dropped();
                    **kept = new;
                }
            },
            none => *none = Some(KBox::new(new, GFP_KERNEL)?),
        }
        Ok(())
    }

    /// Removes an object and returns it. The caller gives it back to the previous exporter.
    pub(crate) fn pop(&self) -> Option<Object> {
        self.state.lock().loaded.pop()
    }

    /// Returns the current contents.
    ///
    /// Errors: -ENODEV if the module is unloaded, -ENOMEM.
    pub(crate) fn contents(&self) -> Result<KVVec<u8>> {
        let State { loaded, kept } = &mut *self.state.lock();
        let Some(first) = loaded.first() else {
            return copy_of(kept.as_ref().ok_or(ENODEV)?);
        };
        let mut bytes = contents_of(first)?;
        if let Some(older) = kept {
            match merged(older, &bytes)? {
                Some(both) => bytes = both,
                // Other functions mean another build, although the stamps are equal.
                None => {
                    self.warn_dropped();
                    *kept = None;
                }
            }
        }
        for object in loaded.others() {
            if object.build() == first.build() {
                if let Some(both) = merged(&mut bytes, &contents_of(object)?)? {
                    bytes = both;
                }
            }
        }
        Ok(bytes)
    }

    /// Appends the counters to `to` and returns their number.
    ///
    /// Errors: as for [`Self::contents`]; then nothing is added.
    pub(crate) fn counters(&self, to: &mut KVVec<u64>) -> Result<usize> {
        let start = to.len();
        let state = self.state.lock();
        if let (Some(only), [], None) = (state.loaded.first(), state.loaded.others(), &state.kept) {
            if only.add_counters(to)? {
                return Ok(to.len().saturating_sub(start));
            }
        }
        drop(state);
        let bytes = self.contents()?;
        let added = if is_profile(&bytes) {
            push_all(to, profile_counters(&bytes).ok_or(EIO)?)
        } else {
            let gcda = Gcda::parse(&bytes).map_err(|_| EIO)?;
            let sets = gcda.functions().flat_map(|function| function.sets());
            push_all(to, sets.flat_map(|set| set.values()))
        };
        if added.is_err() {
            to.truncate(start);
        }
        added.map(|()| to.len().saturating_sub(start))
    }

    /// Sets all counters to 0 and drops the kept contents.
    pub(crate) fn reset(&self) -> Usage {
        let mut state = self.state.lock();
        state.loaded.iter().for_each(Object::reset);
        state.kept = None;
        state.usage()
    }

    /// Returns [`Usage::Empty`] if the file has neither objects nor kept contents.
    pub(crate) fn usage(&self) -> Usage {
        self.state.lock().usage()
    }
}

impl State {
    fn usage(&self) -> Usage {
        match self.loaded.first().is_none() && self.kept.is_none() {
            true => Usage::Empty,
            false => Usage::InUse,
        }
    }
}
