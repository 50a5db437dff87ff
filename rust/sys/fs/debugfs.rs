// SPDX-License-Identifier: GPL-2.0

//! debugfs directories, and files with a [`FileTable`].
//!
//! What a module leaves behind when it goes, as it may with `mem::forget()`, is taken away: its files here, with
//! their operations. An empty directory stays.
//!
//! Contexts: process. Locks: `files()`, which is not held while a file is made or removed.

use core::ops::Deref;
use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use crate::fs::dentry::Dentry;
use crate::fs::fops::FileOps;
use crate::fs::fops::FileTable;
use crate::sync::mutex::StaticGuard;
use crate::sync::mutex::StaticMutex;

// RUST-KERNEL: `kernel::debugfs` has files of one value, and no errors; ours until files can have operations (`mmap()`, `poll()`, `splice()`).
/// A directory, removed with all that is in it when it is dropped, and so are its subdirectories.
///
/// A subdirectory keeps the directory that it is in: that is removed after it.
pub struct Dir(DirRef);

/// A directory that has been made.
///
/// # Invariants
///
/// The dentry is a directory of debugfs that nobody else removes.
struct Made {
    dentry: Dentry,
    // Dropped after this directory has been removed.
    _parent: DirRef,
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is still there. What is in it belongs to nobody who removes directories:
        // a subdirectory would have a count of this.
        unsafe { bindings::debugfs_remove(self.dentry.as_ptr()) };
    }
}

impl Dir {
    /// Makes a directory in the root of debugfs.
    ///
    /// Errors: -EEXIST, -ENOMEM, -ENODEV or -EPERM if debugfs is switched off.
    pub fn new(name: &CStr) -> Result<Self> {
        Self::make(name, DirRef::ROOT)
    }

    /// Makes a directory in this one.
    ///
    /// Errors: as for [`Dir::new`].
    pub fn subdir(&self, name: &CStr) -> Result<Self> {
        Self::make(name, self.to_ref())
    }

    fn make(name: &CStr, parent: DirRef) -> Result<Self> {
        // SAFETY: The name is a string; `parent` is NULL, the root, or another `Dir`, which is there as long as this reference.
        let dir = from_err_ptr(unsafe {
            bindings::debugfs_create_dir(name.as_char_ptr(), parent.as_ptr())
        })?;
        let dentry = NonNull::new(dir).ok_or(ENOMEM)?;
        // INVARIANT: Just made, in a directory that cannot go.
        let made = Made {
            // SAFETY: As nobody else removes it, it is still there.
            dentry: unsafe { Dentry::get(dentry) },
            _parent: parent,
        };
        Ok(Self(DirRef(Parent::Own(Arc::new(made, GFP_KERNEL)?))))
    }

    /// The directory, for whoever makes files in it. It is removed when the last such reference has gone, too.
    pub fn to_ref(&self) -> DirRef {
        self.0.clone()
    }
}

/// To make files in it.
impl Deref for Dir {
    type Target = DirRef;

    fn deref(&self) -> &DirRef {
        &self.0
    }
}

/// A directory to make files in.
#[derive(Clone)]
pub struct DirRef(Parent);

#[derive(Clone)]
enum Parent {
    Root,
    /// It stays.
    Own(Arc<Made>),
    /// Somebody else's, which may have been removed.
    Others(Dentry),
}

impl DirRef {
    /// The root of debugfs.
    pub const ROOT: Self = Self(Parent::Root);

    /// # Safety
    ///
    /// `dir` is a directory of debugfs, or NULL for its root. It is not removed while a file is made in it.
    pub unsafe fn from_raw(dir: *mut bindings::dentry) -> Self {
        Self(NonNull::new(dir).map_or(Parent::Root, |dir| {
            // SAFETY: By the rules of this function.
            Parent::Others(unsafe { Dentry::get(dir) })
        }))
    }

    /// For the C side: NULL for the root. Valid as long as the object, but the directory may have been removed.
    pub fn as_ptr(&self) -> *mut bindings::dentry {
        match &self.0 {
            Parent::Root => core::ptr::null_mut(),
            Parent::Own(made) => made.dentry.as_ptr(),
            Parent::Others(dentry) => dentry.as_ptr(),
        }
    }

    /// Makes a file of an object, which the file keeps.
    ///
    /// The operations of a file, but for those with [`FileOps::OUTLIVES`], must not make or remove files in the directory that it is in: while the file is
    /// removed, debugfs waits for them with the directory locked.
    ///
    /// Errors: as for [`Dir::new`]; -EINVAL if the table says that it belongs to another module than the one whose code it
    /// has; -ENOENT if the directory has been removed or debugfs is not there yet.
    pub fn file<T: FileOps>(
        &self,
        name: &CStr,
        mode: u16,
        table: &'static FileTable<T>,
        object: ARef<T>,
    ) -> Result<File<T>> {
        let owner = table.owner();
        // SAFETY: A table is a `struct file_operations`, which stays: it is a static.
        if !unsafe { bindings::ferro_fops_owner_is_right(table.as_ptr().cast()) } {
            return Err(EINVAL);
        }
        let (name, mode) = (name.as_char_ptr(), mode & 0o7777);
        let (dir, fops) = (self.as_ptr(), table.as_ptr());
        let data = core::ptr::from_ref::<T>(&object).cast_mut().cast();
        // SAFETY: The name is a string; `dir` is a directory that stays during the call or has been removed, or NULL, the root.
        // The object is of the table's type. debugfs lets nobody open the file any more once it has been removed, which `File`
        // does before it gives up the object.
        let dentry = from_err_ptr(unsafe {
            if T::OUTLIVES {
                // An open file has a count of the object, so its operations need no protection
                // against removal, and those that the protecting ones do not forward work.
                bindings::debugfs_create_file_unsafe(name, mode, dir, data, fops)
            } else {
                let aux = core::ptr::null();
                bindings::debugfs_create_file_full(name, mode, dir, data, aux, fops)
            }
        })?;
        let dentry = NonNull::new(dentry).ok_or(ENOMEM)?;
        let file = File {
            // SAFETY: The file has just been made. Its directory stays, so that nobody else can have removed it.
            dentry: unsafe { Dentry::get(dentry) },
            _object: object,
        };
        if file._object.size() > 0 {
            file.dentry.set_size(file._object.size());
        }
        if !owner.is_null() {
            // Should it fail, the file goes again.
            files().push(Listed { dentry, owner }, GFP_KERNEL | __GFP_NOWARN)?;
        }
        Ok(file)
    }
}

/// A symbolic link, removed when it is dropped.
pub struct Link(Dentry);

impl DirRef {
    /// Makes a symbolic link.
    ///
    /// Errors: as for [`Dir::new`]; -ENOENT if the directory has been removed.
    pub fn link(&self, name: &CStr, target: &CStr) -> Result<Link> {
        let (name, target) = (name.as_char_ptr(), target.as_char_ptr());
        // SAFETY: Both are strings, and are copied; `dir` is a directory that stays during the call or has been removed, or NULL,
        // the root.
        let dentry =
            from_err_ptr(unsafe { bindings::debugfs_create_symlink(name, self.as_ptr(), target) })?;
        let dentry = NonNull::new(dentry).ok_or(ENOMEM)?;
        // SAFETY: The link has just been made. Its directory stays, so that nobody else can have removed it.
        Ok(Link(unsafe { Dentry::get(dentry) }))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: The count keeps the dentry valid; removing what went with its directory does nothing.
        unsafe { bindings::debugfs_remove(self.0.as_ptr()) };
    }
}

/// A file with the operations of a module.
struct Listed {
    /// Counted by the [`File`] that has put it here.
    dentry: NonNull<bindings::dentry>,
    owner: *mut bindings::module,
}

// SAFETY: Dentries may be used by any task; the other pointer is only compared.
unsafe impl Send for Listed {}

/// Waits for the list of the files whose operations can go.
fn files() -> StaticGuard<KVVec<Listed>> {
    static FILES: StaticMutex<KVVec<Listed>> =
        // SAFETY: A mutex from DEFINE_MUTEX(), for nothing else.
        unsafe { StaticMutex::new(&raw mut bindings::ferro_debugfs_lock, KVVec::new()) };
    FILES.lock()
}

/// For `debugfs.c`: a module goes. Nobody has its files open, since that would have kept it.
///
/// # Safety
///
/// No requirement: the pointer is only compared.
#[export]
unsafe extern "C" fn ferro_debugfs_module_going(module: *mut bindings::module) {
    let next = || {
        let mut files = files();
        let index = files.iter().position(|file| file.owner == module)?;
        let file = files.remove(index).ok()?;
        // SAFETY: What is in the list is counted: a `File` takes itself out before it gives up its count.
        Some(unsafe { Dentry::get(file.dentry) })
    };
    while let Some(dentry) = next() {
        pr_notice!("a module that goes has left a file in debugfs\n");
        // SAFETY: The dentry is counted; a file that has been removed may be removed again.
        unsafe { bindings::debugfs_remove(dentry.as_ptr()) };
    }
}

/// A file, removed when it is dropped.
pub struct File<T: FileOps> {
    dentry: Dentry,
    _object: ARef<T>,
}

/// Gives a file of debugfs another name in its directory.
///
/// Errors: -EEXIST, -ENOMEM, -ENOENT if it has been removed.
pub fn rename(file: &Dentry, name: &CStr) -> Result {
    // SAFETY: The dentry is counted; the format takes a string, which is here.
    to_result(unsafe {
        bindings::debugfs_change_name(file.as_ptr(), c"%s".as_char_ptr(), name.as_char_ptr())
    })
}

impl<T: FileOps> File<T> {
    /// Gives it another name in its directory. Errors: as for [`rename`].
    pub fn rename(&self, name: &CStr) -> Result {
        rename(&self.dentry, name)
    }
}

impl<T: FileOps> Drop for File<T> {
    fn drop(&mut self) {
        let mut files = files();
        let listed = |file: &Listed| file.dentry.as_ptr() == self.dentry.as_ptr();
        if let Some(index) = files.iter().position(listed) {
            let _ = files.remove(index);
        }
        drop(files);
        // SAFETY: The count keeps the dentry valid; removing a file that went with its directory
        // does nothing.
        unsafe { bindings::debugfs_remove(self.dentry.as_ptr()) };
    }
}
