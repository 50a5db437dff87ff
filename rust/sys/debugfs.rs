// SPDX-License-Identifier: GPL-2.0

//! debugfs directories, and files with a [`FileTable`].
//!
//! Contexts: process.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::dentry::Dentry;
use crate::fops::FileOps;
use crate::fops::FileTable;

/// A directory, removed with all that is in it when it is dropped.
///
/// # Invariants
///
/// The pointer is a directory made by `debugfs_create_dir()` that nobody else removes.
pub struct Dir(NonNull<bindings::dentry>);

// SAFETY: debugfs has its own locks.
unsafe impl Send for Dir {}
// SAFETY: As above.
unsafe impl Sync for Dir {}

impl Dir {
    /// Makes a directory in the root of debugfs.
    ///
    /// Errors: -EEXIST, -ENOMEM, -ENODEV or -EPERM if debugfs is switched off.
    pub fn new(name: &CStr) -> Result<Self> {
        let parent = core::ptr::null_mut();
        // SAFETY: The name is a string; no parent is the root.
        let dir =
            from_err_ptr(unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) })?;
        // INVARIANT: Just made.
        NonNull::new(dir).map(Self).ok_or(ENOMEM)
    }

    /// Makes a directory in this one.
    ///
    /// Errors: as for [`Dir::new`].
    pub fn subdir(&self, name: &CStr) -> Result<Self> {
        // SAFETY: The name is a string; the parent is a directory by the type invariant.
        let dir = from_err_ptr(unsafe {
            bindings::debugfs_create_dir(name.as_char_ptr(), self.as_ptr())
        })?;
        // INVARIANT: Just made.
        NonNull::new(dir).map(Self).ok_or(ENOMEM)
    }

    /// Uses a directory that belongs to somebody else.
    ///
    /// # Safety
    ///
    /// `dir` is a directory of debugfs that is not removed during the call.
    pub unsafe fn with_raw<R>(
        dir: *mut bindings::dentry,
        f: impl FnOnce(&Dir) -> Result<R>,
    ) -> Result<R> {
        let dir = core::mem::ManuallyDrop::new(Self(NonNull::new(dir).ok_or(EINVAL)?));
        f(&dir)
    }

    /// For the C side. Valid as long as the object.
    pub fn as_ptr(&self) -> *mut bindings::dentry {
        self.0.as_ptr()
    }

    /// The directory for who makes files in it, as long as it is there.
    pub fn to_ref(&self) -> DirRef {
        // SAFETY: By the type invariant.
        DirRef(Some(unsafe { Dentry::get(self.0) }))
    }

    /// Makes a file of an object, which the file keeps.
    ///
    /// Errors: as for [`Dir::new`].
    pub fn file<T: FileOps>(
        &self,
        name: &CStr,
        mode: u16,
        table: &'static FileTable<T>,
        object: ARef<T>,
    ) -> Result<File<T>> {
        File::new(self.as_ptr(), name, mode, table, object)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::debugfs_remove(self.as_ptr()) };
    }
}

/// A directory of somebody else's, or the root of debugfs.
#[derive(Clone)]
pub struct DirRef(Option<Dentry>);

impl DirRef {
    /// The root of debugfs.
    pub const ROOT: Self = Self(None);

    /// # Safety
    ///
    /// `dir` is a directory of debugfs, or NULL for its root.
    pub unsafe fn from_raw(dir: *mut bindings::dentry) -> Self {
        // SAFETY: By the rules of this function.
        Self(NonNull::new(dir).map(|dir| unsafe { Dentry::get(dir) }))
    }

    /// Makes a file of an object, which the file keeps.
    ///
    /// Errors: as for [`Dir::new`], and -ENOENT if the directory has been removed or debugfs is not there
    /// yet.
    pub fn file<T: FileOps>(
        &self,
        name: &CStr,
        mode: u16,
        table: &'static FileTable<T>,
        object: ARef<T>,
    ) -> Result<File<T>> {
        let dir = self
            .0
            .as_ref()
            .map_or(core::ptr::null_mut(), Dentry::as_ptr);
        File::new(dir, name, mode, table, object)
    }
}

/// A file, removed when it is dropped.
pub struct File<T: FileOps> {
    dentry: Dentry,
    _object: ARef<T>,
}

impl<T: FileOps> File<T> {
    /// `dir` is a directory of debugfs that is there or has been removed, or NULL.
    fn new(
        dir: *mut bindings::dentry,
        name: &CStr,
        mode: u16,
        table: &'static FileTable<T>,
        object: ARef<T>,
    ) -> Result<Self> {
        let (name, mode) = (name.as_char_ptr(), mode & 0o7777);
        let data = core::ptr::from_ref::<T>(&object).cast_mut().cast();
        // SAFETY: The object is of the table's type. debugfs lets nobody open the file any more
        // once it has been removed, which `File` does before it gives up the object.
        let dentry = from_err_ptr(unsafe {
            if T::MAPPABLE {
                // An open file has a count of the object, so its operations need no protection
                // against removal, and those that the protecting ones do not forward work.
                bindings::debugfs_create_file_unsafe(name, mode, dir, data, table.as_ptr())
            } else {
                let aux = core::ptr::null();
                bindings::debugfs_create_file_full(name, mode, dir, data, aux, table.as_ptr())
            }
        })?;
        let dentry = NonNull::new(dentry).ok_or(ENOMEM)?;
        // SAFETY: The file has just been made, and nobody else can have removed it.
        let dentry = unsafe { Dentry::get(dentry) };
        if object.size() > 0 {
            dentry.set_size(object.size());
        }
        Ok(Self {
            dentry,
            _object: object,
        })
    }
}

impl<T: FileOps> Drop for File<T> {
    fn drop(&mut self) {
        // SAFETY: The count keeps the dentry valid; removing a file that went with its directory
        // does nothing.
        unsafe { bindings::debugfs_remove(self.dentry.as_ptr()) };
    }
}
