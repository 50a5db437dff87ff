// SPDX-License-Identifier: GPL-2.0

//! Debugfs `gcov/`: the callbacks that `builtin/tree.c` needs.
//!
//! Contexts: process, sleeps; the callbacks hold the lock of `builtin/tree.c`, and may hold a
//! directory's lock.

use core::marker::PhantomData;

use ferro_sys::bindings;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::sync::refcounted::Shared;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

/// Number of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u32);

impl Id {
    /// The root directory.
    pub(crate) const ROOT: Self = Self(0);
    /// The file that resets all counters.
    pub(crate) const RESET: Self = Self(1);
    /// The file with all counters.
    pub(crate) const ALL: Self = Self(2);
    /// Below the numbers of all files of objects.
    pub(crate) const FIRST: Self = Self(3);

    /// Flag in the numbers of directories, except the root's.
    pub(crate) const DIR: u32 = 1 << 31;

    /// Wraps a number.
    pub(crate) fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns the next greater number.
    pub(crate) fn after(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns true for a directory.
    pub(crate) fn is_dir(self) -> bool {
        self.0 & Self::DIR != 0 || self == Self::ROOT
    }

    /// Returns true for a file of objects.
    pub(crate) fn is_file(self) -> bool {
        !self.is_dir() && self >= Self::FIRST
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Dir(Id),
    File(Id),
    /// The link to the notes of a file.
    Link(Id),
}

/// An entry in a directory listing.
pub(crate) struct DirEntry<'t> {
    pub(crate) node: Node,
    /// Position in the directory.
    pub(crate) position: u64,
    /// Name, in two parts.
    pub(crate) name: [&'t [u8]; 2],
}

/// Contents of the tree.
pub(crate) trait Source: 'static {
    /// An open file.
    type Open: NodeOps;

    /// File operations of [`Self::Open`].
    const FILES: &'static FileTable<Shared<Self::Open>>;

    /// Looks a name up in a directory.
    fn lookup(dir: Id, name: &[u8]) -> Option<Node>;

    /// Calls `f` with the entries of a directory from a position on, until it returns false.
    fn list(dir: Id, position: u64, f: impl FnMut(DirEntry<'_>) -> bool);

    /// Returns the target of the link next to a file, with a NUL at its end.
    fn target(id: Id) -> Result<KVec<u8>>;

    /// Opens a file.
    fn open(id: Id) -> Result<ARef<Shared<Self::Open>>>;
}

/// The shown tree. Hides it when dropped. If leaked, the tree stays until the module is unloaded.
pub(crate) struct DebugfsTree(());

impl DebugfsTree {
    /// Shows the tree. Errors: -EEXIST, -ENOMEM, -ENODEV or -EPERM without debugfs; -EINVAL if the
    /// files belong to another module.
    pub(crate) fn new<S: Source>() -> Result<Self> {
        // SAFETY: A table is a `struct file_operations`, which stays: it is a static.
        if !unsafe { bindings::ferro_fops_owner_is_right(S::FILES.as_ptr().cast()) } {
            return Err(EINVAL);
        }
        // SAFETY: The functions are the callbacks that `ferro_gcov_tree` asks for, in the module
        // that owns the files. The functions and the files stay until they are hidden: when this is
        // dropped, or else by `builtin.c` when the module is unloaded.
        to_result(unsafe { bindings::ferro_gcov_tree_show(Table::<S>::TREE) })?;
        Ok(Self(()))
    }
}

impl Drop for DebugfsTree {
    fn drop(&mut self) {
        // SAFETY: The tree is shown: only one `DebugfsTree` exists at a time, as `gcov/` can be
        // made once.
        unsafe { bindings::ferro_gcov_tree_hide() };
    }
}

/// Forgets removed entries: none can be looked up when this returns. The caller must not hold locks
/// that a [`Source`] takes.
pub(crate) fn forget() {
    // SAFETY: The only rule, the one above, is about deadlocks.
    unsafe { bindings::ferro_gcov_tree_forget() };
}

struct Table<S>(PhantomData<S>);

impl<S: Source> Table<S> {
    const TREE: &'static bindings::ferro_gcov_tree = &bindings::ferro_gcov_tree {
        files: S::FILES.as_ptr(),
        lookup: Some(lookup::<S>),
        list: Some(list::<S>),
        target: Some(target::<S>),
        open: Some(open::<S>),
    };
}

impl From<Node> for bindings::ferro_gcov_node {
    fn from(node: Node) -> Self {
        let (id, kind) = match node {
            Node::Dir(id) => (id, bindings::ferro_gcov_kind_FERRO_GCOV_DIR),
            Node::File(id) => (id, bindings::ferro_gcov_kind_FERRO_GCOV_FILE),
            Node::Link(id) => (id, bindings::ferro_gcov_kind_FERRO_GCOV_LINK),
        };
        Self {
            id: id.number(),
            kind,
        }
    }
}

/// # Safety
///
/// There are `len` bytes at `name`, which stay during the call, and `node` can be written.
unsafe extern "C" fn lookup<S: Source>(
    dir: u32,
    name: *const c_char,
    len: usize,
    node: *mut bindings::ferro_gcov_node,
) -> c_int {
    // SAFETY: By the rules of this function.
    let name = unsafe { core::slice::from_raw_parts(name.cast::<u8>(), len) };
    match S::lookup(Id::new(dir), name) {
        Some(found) => {
            // SAFETY: By the rules of this function.
            unsafe { node.write(found.into()) };
            0
        }
        None => ENOENT.to_errno(),
    }
}

/// # Safety
///
/// There is room for `max` entries.
unsafe extern "C" fn list<S: Source>(
    dir: u32,
    position: u64,
    entries: *mut bindings::ferro_gcov_entry,
    max: usize,
) -> usize {
    let mut count = 0;
    S::list(Id::new(dir), position, |listed| {
        if count >= max {
            return false;
        }
        let mut len = 0;
        // SAFETY: By the rules of this function, for all of this block: `entry` is within the room
        // for `max` entries, which the caller alone uses. The name is copied as far as it fits.
        unsafe {
            let entry = entries.add(count);
            (&raw mut (*entry).node).write(listed.node.into());
            (&raw mut (*entry).position).write(listed.position);
            for part in listed.name {
                let room = bindings::NAME_MAX as usize - len;
                let part = part.get(..room).unwrap_or(part);
                let to = (&raw mut (*entry).name).cast::<u8>().add(len);
                to.copy_from_nonoverlapping(part.as_ptr(), part.len());
                len += part.len();
            }
            (&raw mut (*entry).len).write(len);
        }
        count += 1;
        count < max
    });
    count
}

extern "C" fn target<S: Source>(id: u32) -> *mut c_char {
    match S::target(Id::new(id)) {
        // Allocated by `kmalloc()`, as all vectors of this kind.
        Ok(target) => target.into_raw_parts().0.cast(),
        Err(_) => core::ptr::null_mut(),
    }
}

/// # Safety
///
/// `object` can be written.
unsafe extern "C" fn open<S: Source>(id: u32, object: *mut *mut c_void) -> c_int {
    match S::open(Id::new(id)) {
        Ok(open) => {
            // SAFETY: By the rules of this function. The file gets the operations of this type,
            // which take the reference over and drop it when the file is closed.
            unsafe { object.write(ARef::into_raw(open).as_ptr().cast()) };
            0
        }
        Err(error) => error.to_errno(),
    }
}
