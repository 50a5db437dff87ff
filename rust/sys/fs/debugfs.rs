// SPDX-License-Identifier: GPL-2.0

//! Directories, links, and files with a [`FileTable`] in debugfs, and in the filesystem
//! `ferrotrace` (`ferrotracefs.c`), where files can be used under lockdown.
//!
//! Each node is in both, unless its directory is one that other code has made in debugfs. A node
//! is removed when its value is dropped, or when the module that made it is unloaded: a value may
//! have been forgotten (`mem::forget()`).
//!
//! Contexts: process; drop: any, except that of [`CFile`]. Locks: `listed()`, which is not held
//! while a node is made or removed.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::panic::Location;
use core::ptr::NonNull;

use crate::bindings;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use crate::fs::dentry::Dentry;
use crate::fs::fops::FileOps;
use crate::fs::fops::FileTable;
use crate::hook::is_going;
use crate::static_mutex;
use crate::sync::deferred_drop::may_sleep;
use crate::sync::deferred_drop::Deferred;
use crate::sync::mutex::StaticGuard;
use crate::sync::mutex::StaticMutex;

/// A node of debugfs, with the objects that it needs. Its drop removes the node, and waits for the
/// operations of the files in it, but not of a [`CFile`].
struct Entry<K> {
    dentry: Dentry,
    /// The same node in `ferrotrace`.
    twin: Option<Twin>,
    // Dropped after the removal.
    _keeps: K,
}

impl<K> Entry<K> {
    /// Finds the node that has just been made in `dir`, and makes its twin. `make_twin` calls a
    /// function of `ferrotracefs.h` with the directory that it gets.
    ///
    /// Errors: -ENOENT if the node has been removed again, with the directory, and errors of
    /// `make_twin`.
    fn complete(
        dir: &DirRef,
        name: &CStr,
        keeps: K,
        make_twin: impl FnOnce(*mut bindings::dentry) -> *mut bindings::dentry,
    ) -> Result<Self> {
        // SAFETY: The name is a string; `dir` is a counted directory, which may have been removed,
        // or NULL, the root.
        let found = unsafe { bindings::debugfs_lookup(name.as_char_ptr(), dir.as_ptr()) };
        let found = NonNull::new(found).ok_or(ENOENT)?;
        let mut entry = Self {
            // SAFETY: The lookup has taken a reference, and its result is a positive dentry.
            dentry: unsafe { Dentry::from_counted(found) },
            twin: None,
            _keeps: keeps,
        };
        if let Some(parent) = dir.twin() {
            // On an error the drop removes the node.
            let made = NonNull::new(from_err_ptr(make_twin(parent))?).ok_or(ENOMEM)?;
            // INVARIANT: The functions of `ferrotracefs.h` return a dentry with a reference.
            entry.twin = Some(Twin(made));
        }
        Ok(entry)
    }

    /// Returns the pointer to the twin; NULL without one.
    fn twin_ptr(&self) -> *mut bindings::dentry {
        self.twin
            .as_ref()
            .map_or(core::ptr::null_mut(), Twin::as_ptr)
    }

    /// Renames the node within its directory.
    ///
    /// Errors: -EEXIST, -ENOMEM, -ENOENT if it has been removed.
    fn rename(&self, name: &CStr) -> Result {
        // SAFETY: The dentry is counted; the format takes a string, which is passed.
        to_result(unsafe {
            bindings::debugfs_change_name(
                self.dentry.as_ptr(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        })?;
        match &self.twin {
            // SAFETY: The dentry is counted, and the name a string.
            Some(twin) => {
                to_result(unsafe { bindings::ferro_fs_rename(twin.as_ptr(), name.as_char_ptr()) })
            }
            None => Ok(()),
        }
    }

    /// Lists the node for the module that contains `origin`. Errors: no memory, -ESHUTDOWN if the
    /// module is being unloaded.
    fn list(&self, origin: usize, what: &'static str) -> Result {
        let mut listed = listed();
        if is_going(origin) {
            return Err(ESHUTDOWN);
        }
        let (dentry, twin) = (self.dentry.as_ptr(), self.twin_ptr());
        Ok(listed.push(
            Listed {
                dentry,
                twin,
                origin,
                what,
            },
            GFP_KERNEL | __GFP_NOWARN,
        )?)
    }
}

impl<K> Drop for Entry<K> {
    fn drop(&mut self) {
        let mut listed = listed();
        let is_it = |one: &Listed| one.dentry == self.dentry.as_ptr();
        if let Some(index) = listed.iter().position(is_it) {
            let _ = listed.remove(index);
        }
        drop(listed);
        // SAFETY: The references keep the dentries valid. Removing them again, after their
        // directory or the module that made them, does nothing.
        unsafe { remove(self.dentry.as_ptr(), self.twin_ptr()) };
    }
}

/// A node of `ferrotrace`.
///
/// # Invariants
///
/// The object owns a reference to the dentry, as `ferro_fs_get()` takes one.
struct Twin(NonNull<bindings::dentry>);

// SAFETY: Dentries may be used by any task.
unsafe impl Send for Twin {}
// SAFETY: As above; the object has no state of its own.
unsafe impl Sync for Twin {}

impl Twin {
    fn as_ptr(&self) -> *mut bindings::dentry {
        self.0.as_ptr()
    }

    /// Sets the size that `stat` shows.
    fn set_size(&self, size: usize) {
        let size = bindings::loff_t::try_from(size).unwrap_or(bindings::loff_t::MAX);
        // SAFETY: By the type invariant; nodes have an inode.
        unsafe { bindings::ferro_i_size_set(self.as_ptr(), size) };
    }

    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// `dentry` points to a node with a reference.
    unsafe fn get(dentry: NonNull<bindings::dentry>) -> Self {
        // SAFETY: By the rules of this function.
        unsafe { bindings::ferro_fs_get(dentry.as_ptr()) };
        // INVARIANT: The reference has just been taken.
        Self(dentry)
    }
}

impl Clone for Twin {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant.
        unsafe { Self::get(self.0) }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the object owns a reference.
        unsafe { bindings::ferro_fs_put(self.as_ptr()) };
    }
}

/// Removes a node and its twin, which may be NULL.
///
/// # Safety
///
/// Both are counted dentries of nodes in this file.
unsafe fn remove(dentry: *mut bindings::dentry, twin: *mut bindings::dentry) {
    if !twin.is_null() {
        // SAFETY: By the rules of this function; a removed node may be removed again.
        unsafe { bindings::ferro_fs_remove(twin) };
    }
    // SAFETY: By the rules of this function; a removed node may be removed again.
    unsafe { bindings::ferro_debugfs_remove(dentry) };
}

/// An [`Entry`] that may be dropped in any context. A work item drops it if the caller must not
/// sleep, or if the drop would wait for the caller, an operation of the file.
///
/// # Invariants
///
/// The entry is present until `drop()`.
struct Owned<K: Send + 'static>(ManuallyDrop<Deferred<Entry<K>>>);

impl<K: Send + 'static> Owned<K> {
    fn new(entry: Entry<K>) -> Result<Self> {
        // INVARIANT: The entry is present.
        Ok(Self(ManuallyDrop::new(Deferred::new(Ok::<_, Error>(
            entry,
        ))?)))
    }
}

impl<K: Send + 'static> Drop for Owned<K> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the entry is present; `self` is not used afterwards.
        let entry = unsafe { ManuallyDrop::take(&mut self.0) };
        let (dentry, twin) = (entry.dentry.as_ptr(), entry.twin_ptr());
        // SAFETY: Sleeping is allowed, so this is process context; the entry has references to the
        // dentries.
        if may_sleep() && unsafe { bindings::ferro_file_waits_for_itself(dentry, twin) } {
            entry.drop_later();
        }
    }
}

// RUST-KERNEL: `kernel::debugfs` has files of one value, and no errors; ours until files can have
// operations (`mmap()`, `poll()`, `splice()`).
/// A directory. The drop removes it with its contents, subdirectories included.
///
/// A subdirectory keeps its parent: the parent is removed after it. A forgotten directory is
/// removed when the module that made it is unloaded.
pub struct Dir(DirRef);

impl Dir {
    /// Makes a directory in the roots.
    ///
    /// Errors: -EEXIST, -ENOMEM, -ENODEV or -EPERM if debugfs is switched off, -ESHUTDOWN if the
    /// caller's module is being unloaded.
    #[track_caller]
    pub fn new(name: &CStr) -> Result<Self> {
        Self::make(name, DirRef::ROOT, Location::caller())
    }

    /// Makes a directory in this one.
    ///
    /// Errors: as for [`Dir::new`].
    #[track_caller]
    pub fn subdir(&self, name: &CStr) -> Result<Self> {
        Self::make(name, self.to_ref(), Location::caller())
    }

    fn make(name: &CStr, parent: DirRef, maker: &'static Location<'static>) -> Result<Self> {
        // SAFETY: The name is a string; `parent` is NULL, the root, or another `Dir`, which is
        // counted.
        from_err_ptr(unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent.as_ptr()) })?;
        let entry = Entry::complete(&parent, name, parent.clone(), |twin| {
            // SAFETY: The name is a string; the directory is counted, or NULL.
            unsafe { bindings::ferro_fs_dir(twin, name.as_char_ptr()) }
        })?;
        entry.list(origin_of(maker), "directory")?;
        let owned = Arc::new(Owned::new(entry)?, GFP_KERNEL)?;
        Ok(Self(DirRef(Parent::Own(owned))))
    }

    /// Returns a reference to the directory, in which files can be made. The directory is removed
    /// when this object and all such references have been dropped.
    pub fn to_ref(&self) -> DirRef {
        self.0.clone()
    }
}

/// Returns an address in the module of the calling code: the location is data of that module.
fn origin_of(caller: &'static Location<'static>) -> usize {
    core::ptr::from_ref(caller).addr()
}

/// Gives access to the functions that make files.
impl Deref for Dir {
    type Target = DirRef;

    fn deref(&self) -> &DirRef {
        &self.0
    }
}

/// A directory in which files can be made.
#[derive(Clone)]
pub struct DirRef(Parent);

#[derive(Clone)]
enum Parent {
    Root,
    /// A directory of this file. It has been removed if the module that made and forgot it was
    /// unloaded.
    Own(Arc<Owned<DirRef>>),
    /// A directory of other code, which may have been removed, and its twin.
    Others(Dentry, Option<Twin>),
}

impl DirRef {
    /// The roots of debugfs and of `ferrotrace`.
    pub const ROOT: Self = Self(Parent::Root);

    /// Returns a reference to a directory, with its twin if this file has made it.
    ///
    /// # Safety
    ///
    /// `dir` is a directory of debugfs, or NULL for its root.
    pub unsafe fn from_raw(dir: *mut bindings::dentry) -> Self {
        Self(NonNull::new(dir).map_or(Parent::Root, |dir| {
            let is_it = |one: &&Listed| one.dentry == dir.as_ptr();
            let listed = listed();
            let twin = listed.iter().find(is_it).map(|one| one.twin);
            // SAFETY: Each listed node has references.
            let twin = twin
                .and_then(NonNull::new)
                .map(|twin| unsafe { Twin::get(twin) });
            // SAFETY: By the rules of this function.
            Parent::Others(unsafe { Dentry::get(dir) }, twin)
        }))
    }

    /// Returns the twin, NULL for the root; `None` if this is a directory of debugfs only. It is
    /// valid as long as the object, but the directory may have been removed.
    fn twin(&self) -> Option<*mut bindings::dentry> {
        match &self.0 {
            Parent::Root => Some(core::ptr::null_mut()),
            Parent::Own(owned) => owned.0.twin.as_ref().map(Twin::as_ptr),
            Parent::Others(_, twin) => twin.as_ref().map(Twin::as_ptr),
        }
    }

    /// Returns the C pointer: NULL for the root. It is valid as long as the object, but the
    /// directory may have been removed.
    pub fn as_ptr(&self) -> *mut bindings::dentry {
        match &self.0 {
            Parent::Root => core::ptr::null_mut(),
            Parent::Own(owned) => owned.0.dentry.as_ptr(),
            Parent::Others(dentry, _) => dentry.as_ptr(),
        }
    }

    /// Makes a file for an object; the file keeps the object.
    ///
    /// The operations of a file, except those with [`FileOps::OUTLIVES`], must not make files in
    /// the directory of the file. While the file is removed, debugfs waits for them with the
    /// directory locked.
    ///
    /// Errors: as for [`Dir::new`]; -EINVAL if the owner of the table is not the module of its
    /// code; -ENOENT if the directory has been removed or debugfs is not initialised.
    pub fn file<T: FileOps>(
        &self,
        name: &CStr,
        mode: u16,
        table: &'static FileTable<T>,
        object: ARef<T>,
    ) -> Result<File<T>> {
        let owner = table.owner();
        // SAFETY: A table is a `struct file_operations`, and a static.
        if !unsafe { bindings::ferro_fops_owner_is_right(table.as_ptr().cast()) } {
            return Err(EINVAL);
        }
        let (text, mode) = (name.as_char_ptr(), mode & 0o7777);
        let (dir, fops) = (self.as_ptr(), table.as_ptr());
        let data = core::ptr::from_ref::<T>(&object).cast_mut().cast();
        // SAFETY: The name is a string; `dir` is a counted directory, which may have been removed,
        // or NULL, the root. The object has the table's type. Debugfs lets no task open a removed
        // file, and `File` removes it before it drops the object.
        from_err_ptr(unsafe {
            if T::OUTLIVES {
                // An open file has a reference to the object, so its operations need no protection
                // against removal. Without the protection, operations that its proxies do not
                // forward work, too.
                bindings::debugfs_create_file_unsafe(text, mode, dir, data, fops)
            } else {
                let aux = core::ptr::null();
                bindings::debugfs_create_file_full(text, mode, dir, data, aux, fops)
            }
        })?;
        let size = object.size();
        let entry = Entry::complete(self, name, object, |twin| {
            // SAFETY: As for debugfs above. The table protects its operations itself, as its
            // functions know their file's filesystem.
            unsafe { bindings::ferro_fs_file(twin, text, mode, data, fops) }
        })?;
        if size > 0 {
            entry.dentry.set_size(size);
            entry.twin.iter().for_each(|twin| twin.set_size(size));
        }
        if !owner.is_null() {
            // A module's table is part of the module.
            entry.list(owner.addr(), "file")?;
        }
        Ok(File(Owned::new(entry)?))
    }

    /// Makes a file with operations of C, for `data`.
    ///
    /// Errors: as for [`Dir::new`]; -ENOENT if the directory has been removed or debugfs is not
    /// initialised.
    ///
    /// # Safety
    ///
    /// The operations are for `data`, which is valid until the drop of the result. They need no
    /// protection against removal while the file is open.
    pub unsafe fn c_file(
        &self,
        name: &CStr,
        mode: u16,
        operations: *const bindings::file_operations,
        data: *mut c_void,
    ) -> Result<CFile> {
        let text = name.as_char_ptr();
        // SAFETY: By the rules of this function. The name is a string; the directory is counted,
        // and may have been removed, or NULL, the root. The unsafe variant also passes mmap on,
        // with either engine.
        from_err_ptr(unsafe {
            bindings::debugfs_create_file_unsafe(text, mode, self.as_ptr(), data, operations)
        })?;
        Ok(CFile(Entry::complete(self, name, (), |twin| {
            // SAFETY: As above.
            unsafe { bindings::ferro_fs_file(twin, text, mode, data, operations) }
        })?))
    }

    /// Makes a symbolic link.
    ///
    /// Errors: as for [`Dir::new`]; -ENOENT if the directory has been removed.
    #[track_caller]
    pub fn link(&self, name: &CStr, target: &CStr) -> Result<Link> {
        let (text, target) = (name.as_char_ptr(), target.as_char_ptr());
        // SAFETY: Both are strings, and are copied; `dir` is a counted directory, which may have
        // been removed, or NULL, the root.
        from_err_ptr(unsafe { bindings::debugfs_create_symlink(text, self.as_ptr(), target) })?;
        let entry = Entry::complete(self, name, (), |twin| {
            // SAFETY: Both are strings, and are copied; the directory is counted, or NULL.
            unsafe { bindings::ferro_fs_link(twin, text, target) }
        })?;
        entry.list(origin_of(Location::caller()), "link")?;
        Ok(Link(Owned::new(entry)?))
    }
}

/// A symbolic link. The drop removes it.
pub struct Link(#[expect(dead_code, reason = "for its drop")] Owned<()>);

/// A node that a module has made.
struct Listed {
    /// The [`Entry`] that is listed here holds the references.
    dentry: *mut bindings::dentry,
    /// NULL without one.
    twin: *mut bindings::dentry,
    /// An address in the module.
    origin: usize,
    what: &'static str,
}

// SAFETY: Dentries may be used by any task.
unsafe impl Send for Listed {}

/// Locks the list of nodes made by modules.
fn listed() -> StaticGuard<KVVec<Listed>> {
    static LISTED: StaticMutex<KVVec<Listed>> = static_mutex!(ferro_debugfs_lock, KVVec::new());
    LISTED.lock()
}

/// Entry point of `debugfs.c`: removes the nodes of a module being unloaded. Their files
/// are not open, since an open file keeps the module.
///
/// # Safety
///
/// `module` points to a module.
#[no_mangle]
unsafe extern "C" fn ferro_debugfs_module_going(module: *mut bindings::module) {
    let next = || {
        let mut listed = listed();
        // SAFETY: By the rules of this function.
        let is_its = |one: &Listed| unsafe { bindings::ferro_within_module(one.origin, module) };
        // The nodes in a directory follow it in the list.
        let index = listed.iter().rposition(is_its)?;
        let one = listed.remove(index).ok()?;
        let node = NonNull::new(one.dentry)?;
        // SAFETY: Each listed node has references: an `Entry` removes itself from the list before
        // it drops them.
        let (dentry, twin) = unsafe {
            let twin = NonNull::new(one.twin).map(|twin| Twin::get(twin));
            (Dentry::get(node), twin)
        };
        Some((dentry, twin, one.what))
    };
    while let Some((dentry, twin, what)) = next() {
        pr_notice!("an unloaded module has left a {what} in debugfs\n");
        let twin = twin.as_ref().map_or(core::ptr::null_mut(), Twin::as_ptr);
        // SAFETY: The dentries are counted.
        unsafe { remove(dentry.as_ptr(), twin) };
    }
}

/// A file. The drop removes it.
pub struct File<T: FileOps>(Owned<ARef<T>>);

/// A file with operations of C. The drop removes it; it does not wait for operations of open files.
/// Context of the drop: process.
pub struct CFile(Entry<()>);

impl CFile {
    /// Returns the C pointer of the file in debugfs.
    pub fn as_ptr(&self) -> *mut bindings::dentry {
        self.0.dentry.as_ptr()
    }

    /// Renames the file within its directory.
    ///
    /// Errors: -EEXIST, -ENOMEM, -ENOENT if it has been removed.
    pub fn rename(&self, name: &CStr) -> Result {
        self.0.rename(name)
    }
}

impl<T: FileOps> File<T> {
    /// Renames the file within its directory.
    ///
    /// Errors: as for [`CFile::rename`].
    pub fn rename(&self, name: &CStr) -> Result {
        self.0 .0.rename(name)
    }
}

crate::declared_in_c!(ferro_debugfs_module_going);
