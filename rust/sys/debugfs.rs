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
        let data = core::ptr::from_ref::<T>(&object).cast_mut().cast();
        // SAFETY: The object is of the table's type. debugfs lets nobody open the file any more
        // once it has been removed, which `File` does before it gives up the object.
        let dentry = from_err_ptr(unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                mode & 0o7777,
                self.as_ptr(),
                data,
                core::ptr::null(),
                table.as_ptr(),
            )
        })?;
        let dentry = NonNull::new(dentry).ok_or(ENOMEM)?;
        Ok(File {
            // SAFETY: The file has just been made, and nobody else can have removed it.
            dentry: unsafe { Dentry::get(dentry) },
            _object: object,
        })
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::debugfs_remove(self.as_ptr()) };
    }
}

/// A file, removed when it is dropped.
pub struct File<T: FileOps> {
    dentry: Dentry,
    _object: ARef<T>,
}

impl<T: FileOps> Drop for File<T> {
    fn drop(&mut self) {
        // SAFETY: The count keeps the dentry valid; removing a file that went with its directory
        // does nothing.
        unsafe { bindings::debugfs_remove(self.dentry.as_ptr()) };
    }
}
