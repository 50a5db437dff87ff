// SPDX-License-Identifier: GPL-2.0

//! Debugfs `gcov/`: a file for each name of an object, below directories that are named as those of the name, and beside it a link
//! to the compiler's notes; `reset`; and `vmlinux` with all counters.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::debugfs::Link;
use ferro_sys::sync::counted::Shared;
use kernel::prelude::*;

use crate::engine::FileRef;
use crate::nodes::Node;
use crate::nodes::FILES;
use crate::raw::handover::object_tree;
use crate::table::Key;
use crate::table::Named;
use crate::table::Room;
use crate::table::Table;

type NodeFile = File<Shared<Node>>;

/// All of it.
pub(crate) struct Tree {
    // In the order in which they have to go.
    _reset: NodeFile,
    _all: NodeFile,
    branches: Table<Branch>,
    root: Dir,
}

/// A directory below the root.
struct Branch {
    /// From the root on: `a/b`.
    path: KVec<u8>,
    dir: Dir,
    /// `None`: the root.
    parent: Option<Key>,
    /// Files and directories in it.
    users: usize,
}

impl Named for Branch {
    fn name(&self) -> &[u8] {
        &self.path
    }
}

/// Where a file is.
pub(crate) struct Place {
    _link: Option<Link>,
    _file: NodeFile,
    branch: Option<Key>,
}

/// A name that ends with NUL.
struct Name(KVec<u8>);

impl Name {
    fn new(parts: &[&[u8]]) -> Result<Self> {
        let mut bytes = KVec::new();
        for part in parts {
            bytes.extend_from_slice(part, GFP_KERNEL)?;
        }
        bytes.push(0, GFP_KERNEL)?;
        Ok(Self(bytes))
    }

    fn as_c_str(&self) -> Result<&CStr> {
        CStr::from_bytes_with_nul(&self.0).map_err(|_| EINVAL)
    }
}

/// The last part of a path, and all before it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => {
            let (dir, rest) = path.split_at(at);
            (dir, rest.get(1..).unwrap_or_default())
        }
        None => (&[], path),
    }
}

/// A path without empty parts, `.` and `..`; what is above the root is the root.
fn normalized(path: &[u8]) -> Result<KVec<u8>> {
    let mut new = KVec::with_capacity(path.len(), GFP_KERNEL)?;
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => (),
            b".." => {
                let len = split(&new).0.len();
                new.truncate(len);
            }
            _ => {
                if !new.is_empty() {
                    new.push(b'/', GFP_KERNEL)?;
                }
                new.extend_from_slice(part, GFP_KERNEL)?;
            }
        }
    }
    Ok(new)
}

/// A name without its extension.
fn stem(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'.') {
        Some(at) if at != 0 => name.split_at(at).0,
        _ => name,
    }
}

impl Tree {
    /// Makes the root, with `reset` and `vmlinux`.
    ///
    /// Errors: -EEXIST, -ENOMEM, -ENODEV or -EPERM without debugfs.
    pub(crate) fn new() -> Result<Self> {
        let root = Dir::new(c"gcov")?;
        Ok(Self {
            _reset: root.file(c"reset", 0o600, &FILES, Shared::new(Ok(Node::Reset))?)?,
            _all: root.file(c"vmlinux", 0o600, &FILES, Shared::new(Ok(Node::All))?)?,
            branches: Table::new(),
            root,
        })
    }

    /// Shows a file. `None` if that is not possible, which has been said.
    pub(crate) fn add(&mut self, file: &FileRef) -> Option<Place> {
        let place = self.try_add(file);
        let said = place.inspect_err(|error| {
            pr_warn!("{}: no file: error {}\n", file.shown(), error.to_errno());
        });
        said.ok()
    }

    fn try_add(&mut self, file: &FileRef) -> Result<Place> {
        let path = normalized(file.name())?;
        let (dir, name) = split(&path);
        let branch = self.branch(dir)?;
        let made = self.make(branch, name, file);
        if made.is_err() {
            self.release(branch);
        }
        made
    }

    fn make(&self, branch: Option<Key>, name: &[u8], file: &FileRef) -> Result<Place> {
        let dir = self.dir(branch)?;
        // As modversions name what they compile.
        let name = name.strip_prefix(b".tmp_").unwrap_or(name);
        let (file_name, link_name) = (Name::new(&[name])?, Name::new(&[stem(name), b".gcno"])?);
        let made = dir.file(
            file_name.as_c_str()?,
            0o600,
            &FILES,
            Shared::new(Ok(Node::File(file.clone())))?,
        )?;
        // The compiler names it as it is called: from where the build runs, if not from the root.
        let named = file.name();
        let tree: &[u8] = match named.first() {
            Some(b'/') => b"",
            _ => object_tree(),
        };
        let target = Name::new(&[tree, stem(named), b".gcno"])?;
        // Without it the contents are still of use.
        let link = dir.link(link_name.as_c_str()?, target.as_c_str()?);
        Ok(Place {
            _link: link.ok(),
            _file: made,
            branch,
        })
    }

    /// Takes a file away.
    pub(crate) fn remove(&mut self, place: Place) {
        let branch = place.branch;
        drop(place);
        self.release(branch);
    }

    fn dir(&self, branch: Option<Key>) -> Result<DirRef> {
        match branch {
            None => Ok(self.root.to_ref()),
            Some(key) => Ok(self.branches.get(key).ok_or(ENOENT)?.dir.to_ref()),
        }
    }

    /// The directory with a path, which has one user more now.
    fn branch(&mut self, path: &[u8]) -> Result<Option<Key>> {
        if path.is_empty() {
            return Ok(None);
        }
        if let Some(key) = self.branches.find(path) {
            return self.get(Some(key)).map(|()| Some(key));
        }
        let mut at = None;
        for end in 1..=path.len() {
            if path.get(end).is_some_and(|byte| *byte != b'/') {
                continue;
            }
            let path = path.get(..end).unwrap_or_default();
            let next = match self.branches.find(path) {
                Some(key) => self.get(Some(key)).map(|()| key),
                None => self.grow(at, path),
            };
            match next {
                // The new one keeps its parent, so that our use of that ends.
                Ok(key) => {
                    self.release(at);
                    at = Some(key);
                }
                Err(error) => {
                    self.release(at);
                    return Err(error);
                }
            }
        }
        Ok(at)
    }

    fn get(&mut self, branch: Option<Key>) -> Result {
        if let Some(key) = branch {
            let branch = self.branches.get_mut(key).ok_or(ENOENT)?;
            branch.users = branch.users.checked_add(1).ok_or(EOVERFLOW)?;
        }
        Ok(())
    }

    /// Makes a directory, with one user.
    fn grow(&mut self, parent: Option<Key>, path: &[u8]) -> Result<Key> {
        let room = Room::new()?;
        let mut copy = KVec::new();
        copy.extend_from_slice(path, GFP_KERNEL)?;
        let name = Name::new(&[split(path).1])?;
        let dir = match parent {
            None => self.root.subdir(name.as_c_str()?)?,
            Some(key) => {
                let parent = self.branches.get(key).ok_or(ENOENT)?;
                parent.dir.subdir(name.as_c_str()?)?
            }
        };
        self.get(parent)?;
        let branch = Branch {
            path: copy,
            dir,
            parent,
            users: 1,
        };
        Ok(self.branches.insert(branch, room))
    }

    /// A directory has one user less. Those that have none any more go.
    fn release(&mut self, branch: Option<Key>) {
        let mut at = branch;
        while let Some(key) = at {
            let Some(branch) = self.branches.get_mut(key) else {
                return;
            };
            branch.users = branch.users.saturating_sub(1);
            if branch.users != 0 {
                return;
            }
            at = branch.parent;
            drop(self.branches.remove(key));
        }
    }
}
