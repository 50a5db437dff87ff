// SPDX-License-Identifier: GPL-2.0

//! Names in debugfs `gcov/`. It has:
//!
//! - a file for each object name, in directories as the name has them, with a link to the
//!   compiler's notes next to the file;
//! - a profile for the image and for each module with instrumented Rust code; the notes are in the
//!   module's own file;
//! - `reset`;
//! - `vmlinux` with all counters.
//!
//! Inodes are made only for names that are looked up; see `raw/tree.rs`. Each file and directory
//! has a number, which is never reused. A directory sorts and lists its files by a hash of their
//! names.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;

use crate::file::FileRef;
use crate::paths::hash;
use crate::paths::leaf;
use crate::paths::normalized;
use crate::paths::split;
use crate::paths::stem;
use crate::paths::NOTES;
use crate::raw::object::PROFILE;
use crate::raw::takeover::object_tree;
use crate::raw::tree::DirEntry;
use crate::raw::tree::Id;
use crate::raw::tree::Node;

/// Longest name of a file or directory.
const NAME_MAX: usize = 255;

/// An entry of a directory, sorted by the hash of its name without extension.
#[derive(Clone, Copy)]
struct Child {
    hash: u32,
    id: Id,
}

impl Child {
    /// Directory positions are positive 64-bit numbers.
    const HASH_BITS: u32 = 29;

    fn new(name: &[u8], id: Id) -> Self {
        Self {
            hash: Self::hash(stem(name)),
            id,
        }
    }

    /// Hashes a name without extension.
    fn hash(stem: &[u8]) -> u32 {
        let hash = hash(stem);
        let bits = (hash ^ hash >> Self::HASH_BITS) & ((1 << Self::HASH_BITS) - 1);
        u32::try_from(bits).unwrap_or_default()
    }

    /// Returns the sort key in the directory.
    fn sort_key(self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.id.number())
    }
}

/// A directory.
struct Dir {
    parent: Id,
    name: KVec<u8>,
    /// Sorted by [`Child::sort_key`].
    children: KVec<Child>,
}

/// A file.
struct Entry {
    dir: Id,
    file: FileRef,
}

/// All files and directories.
pub(crate) struct Tree {
    dirs: RBTree<Id, Dir>,
    files: RBTree<Id, Entry>,
    last: u32,
}

impl Dir {
    fn new(parent: Id, name: &[u8]) -> Result<Self> {
        let mut copy = KVec::new();
        copy.extend_from_slice(name, GFP_KERNEL)?;
        Ok(Self {
            parent,
            name: copy,
            children: KVec::new(),
        })
    }

    /// Returns the children with a hash.
    fn with_hash(&self, hash: u32) -> impl Iterator<Item = Child> + Clone + '_ {
        let start = self.children.partition_point(|child| child.hash < hash);
        let rest = self.children.get(start..).unwrap_or_default();
        rest.iter()
            .copied()
            .take_while(move |child| child.hash == hash)
    }

    fn insert(&mut self, child: Child) -> Result {
        self.children.push(child, GFP_KERNEL)?;
        let at = self
            .children
            .partition_point(|other| other.sort_key() < child.sort_key());
        // The new child, which is last, is not less than itself: the search skips only others.
        let at = at.min(self.children.len().saturating_sub(1));
        if let Some(tail) = self.children.get_mut(at..) {
            tail.rotate_right(1);
        }
        Ok(())
    }

    fn remove(&mut self, id: Id) {
        if let Some(at) = self.children.iter().position(|child| child.id == id) {
            let _ = self.children.remove(at);
        }
    }
}

impl Tree {
    /// Creates a tree with `reset` and `vmlinux`. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let mut root = Dir::new(Id::ROOT, b"")?;
        for (name, id) in [(&b"reset"[..], Id::RESET), (b"vmlinux", Id::ALL)] {
            root.insert(Child::new(name, id))?;
        }
        let mut dirs = RBTree::new();
        dirs.try_create_and_insert(Id::ROOT, root, GFP_KERNEL)?;
        Ok(Self {
            dirs,
            files: RBTree::new(),
            last: Id::FIRST.number(),
        })
    }

    /// Returns the name of an entry.
    fn name(&self, id: Id) -> &[u8] {
        match id {
            Id::RESET => b"reset",
            Id::ALL => b"vmlinux",
            id if id.is_dir() => self.dirs.get(&id).map_or(b"", |dir| &dir.name),
            id => (self.files.get(&id)).map_or(b"", |entry| leaf(entry.file.name())),
        }
    }

    /// Finds the entry with exactly this name.
    fn named(&self, dir: &Dir, name: &[u8]) -> Option<Id> {
        let mut same = dir.with_hash(Child::hash(stem(name)));
        same.find(|child| self.name(child.id) == name)
            .map(|child| child.id)
    }

    /// Returns true if a file of this name has notes and the link's name is not too long.
    fn has_notes(name: &[u8]) -> bool {
        let len = stem(name).len().saturating_add(NOTES.len());
        !name.ends_with(NOTES) && !name.ends_with(PROFILE) && len <= NAME_MAX
    }

    /// Finds the file that a link is next to; `base` is the link's name without its suffix.
    fn link_target(&self, dir: &Dir, base: &[u8]) -> Option<Id> {
        let mut file = None;
        for child in dir.with_hash(Child::hash(base)) {
            let name = self.name(child.id);
            if name.strip_suffix(NOTES) == Some(base) {
                return None;
            }
            let has_notes = child.id.is_file() && Self::has_notes(name);
            if file.is_none() && has_notes && stem(name) == base {
                file = Some(child.id);
            }
        }
        file
    }

    /// Returns true if the file with this index has a link to its notes.
    fn has_link(&self, dir: &Dir, index: usize, name: &[u8]) -> bool {
        let hash = |index: usize| dir.children.get(index).map(|child| child.hash);
        let own = hash(index);
        let is_alone = hash(index.wrapping_sub(1)) != own && hash(index.wrapping_add(1)) != own;
        let child = dir.children.get(index).map(|child| child.id);
        Self::has_notes(name) && (is_alone || self.link_target(dir, stem(name)) == child)
    }

    /// Looks a name up in a directory.
    pub(crate) fn lookup(&self, dir: Id, name: &[u8]) -> Option<Node> {
        let dir = self.dirs.get(&dir)?;
        match self.named(dir, name) {
            Some(id) if id.is_dir() => Some(Node::Dir(id)),
            Some(id) => Some(Node::File(id)),
            // A link has the hash of its file, which covers the name without extension.
            None => {
                let base = name.strip_suffix(NOTES)?;
                self.link_target(dir, base).map(Node::Link)
            }
        }
    }

    /// Calls `f` with the entries of a directory from a position on, until it returns false.
    pub(crate) fn list(&self, dir: Id, position: u64, mut f: impl FnMut(DirEntry<'_>) -> bool) {
        let Some(dir) = self.dirs.get(&dir) else {
            return;
        };
        let place = position >> 1;
        let start = dir
            .children
            .partition_point(|child| child.sort_key() < place);
        for (index, child) in dir.children.iter().enumerate().skip(start) {
            let name = self.name(child.id);
            let first = child.sort_key() << 1;
            let node = match child.id.is_dir() {
                true => Node::Dir(child.id),
                false => Node::File(child.id),
            };
            let itself = DirEntry {
                node,
                position: first,
                name: [name, b""],
            };
            if first >= position && !f(itself) {
                return;
            }
            // A link has the position after its file's.
            let has_link = child.id.is_file() && self.has_link(dir, index, name);
            let link = DirEntry {
                node: Node::Link(child.id),
                position: first | 1,
                name: [stem(name), NOTES],
            };
            if has_link && !f(link) {
                return;
            }
        }
    }

    /// Returns the target of the link next to a file, with a NUL at its end. Errors: -ENOENT,
    /// -ENOMEM.
    pub(crate) fn target(&self, id: Id) -> Result<KVec<u8>> {
        // The compiler gives the name as on its command line: relative to the build directory,
        // unless absolute.
        let named = self.get(id).ok_or(ENOENT)?.name();
        let tree: &[u8] = match named.first() {
            Some(b'/') => b"",
            _ => object_tree(),
        };
        let mut target = KVec::new();
        for part in [tree, stem(named), NOTES, &[0]] {
            target.extend_from_slice(part, GFP_KERNEL)?;
        }
        Ok(target)
    }

    /// Finds a file by its name in the compiler's form. Errors: -ENOMEM.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Id>> {
        let path = normalized(name)?;
        let (dir, _) = split(&path);
        let dir = parts(dir).try_fold(Id::ROOT, |at, part| {
            let id = self.named(self.dirs.get(&at)?, part)?;
            id.is_dir().then_some(id)
        });
        let dir = dir.and_then(|dir| self.dirs.get(&dir));
        let id = dir.and_then(|dir| self.named(dir, leaf(&path)));
        Ok(id.filter(|id| id.is_file()))
    }

    /// Adds a file at the path that its name gives.
    ///
    /// Errors: -EEXIST if the path is taken, -ENAMETOOLONG, -EINVAL if the name cannot be a file's,
    /// -ENOMEM.
    pub(crate) fn add(&mut self, file: FileRef) -> Result<Id> {
        let path = normalized(file.name())?;
        let (dir, last) = split(&path);
        let name = leaf(&path);
        // A name that ends in a slash, `.` or `..` is not a file's.
        if name.is_empty() || split(file.name()).1 != last {
            return Err(EINVAL);
        }
        let dir = self.make_dirs(dir)?;
        let added = self.add_to(dir, name, file);
        if added.is_err() {
            self.remove_empty(dir);
        }
        added
    }

    fn add_to(&mut self, dir: Id, name: &[u8], file: FileRef) -> Result<Id> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let id = self.add_child(dir, name, 0)?;
        self.files.insert(room.into_node(id, Entry { dir, file }));
        Ok(id)
    }

    /// Assigns a number and inserts the child into its directory.
    fn add_child(&mut self, dir: Id, name: &[u8], flag: u32) -> Result<Id> {
        let number = self.last.saturating_add(1);
        if name.len() > NAME_MAX {
            return Err(ENAMETOOLONG);
        }
        if number & Id::DIR != 0 {
            return Err(ENOSPC);
        }
        let at = self.dirs.get(&dir).ok_or(ENOENT)?;
        if self.named(at, name).is_some() {
            return Err(EEXIST);
        }
        let id = Id::new(number | flag);
        let at = self.dirs.get_mut(&dir).ok_or(ENOENT)?;
        at.insert(Child::new(name, id))?;
        self.last = number;
        Ok(id)
    }

    /// Returns the directory of a path; creates missing ones.
    fn make_dirs(&mut self, path: &[u8]) -> Result<Id> {
        let mut at = Id::ROOT;
        for part in parts(path) {
            let found = self.named(self.dirs.get(&at).ok_or(ENOENT)?, part);
            let next = match found {
                Some(id) if id.is_dir() => Ok(id),
                Some(_) => Err(EEXIST),
                None => self.make_dir(at, part),
            };
            at = next.inspect_err(|_| self.remove_empty(at))?;
        }
        Ok(at)
    }

    fn make_dir(&mut self, parent: Id, name: &[u8]) -> Result<Id> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let dir = Dir::new(parent, name)?;
        let id = self.add_child(parent, name, Id::DIR)?;
        self.dirs.insert(room.into_node(id, dir));
        Ok(id)
    }

    /// Removes a file, and the directories that become empty.
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(entry) = self.files.remove(&id) {
            if let Some(dir) = self.dirs.get_mut(&entry.dir) {
                dir.remove(id);
            }
            self.remove_empty(entry.dir);
        }
    }

    fn remove_empty(&mut self, dir: Id) {
        let mut at = dir;
        while at != Id::ROOT
            && self
                .dirs
                .get(&at)
                .is_some_and(|dir| dir.children.is_empty())
        {
            let Some(dir) = self.dirs.remove(&at) else {
                return;
            };
            if let Some(parent) = self.dirs.get_mut(&dir.parent) {
                parent.remove(at);
            }
            at = dir.parent;
        }
    }

    /// Returns the file with a number.
    pub(crate) fn get(&self, id: Id) -> Option<&FileRef> {
        self.files.get(&id).map(|entry| &entry.file)
    }

    /// Returns the first file with this number or a greater one.
    pub(crate) fn from(&self, id: Id) -> Option<(Id, &FileRef)> {
        let id = *self.files.cursor_lower_bound(&id)?.current().0;
        Some((id, self.get(id)?))
    }

    /// Iterates over all files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &FileRef)> {
        self.files.iter().map(|(id, entry)| (*id, &entry.file))
    }
}

/// Splits a path into its parts.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
}
