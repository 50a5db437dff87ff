// SPDX-License-Identifier: GPL-2.0

//! Counted dentries.
//!
//! Contexts: process, except for [`Dentry::add_size`].

use core::ptr::NonNull;

use crate::bindings;

// RUST-KERNEL: there is no `kernel::fs` type for this; ours until there is.
/// A counted reference to a positive dentry.
///
/// The dentry stays valid when the file is removed.
///
/// # Invariants
///
/// The object owns a reference to the dentry, and the dentry has an inode.
pub struct Dentry(NonNull<bindings::dentry>);

// SAFETY: Dentries are counted atomically and may be used by any task.
unsafe impl Send for Dentry {}
// SAFETY: A shared one allows setting the size of the inode, one word, as `i_size_write()` does on
// 64-bit machines.
unsafe impl Sync for Dentry {}

impl Dentry {
    /// Takes another reference to a dentry.
    ///
    /// # Safety
    ///
    /// `dentry` points to a live dentry with an inode.
    pub unsafe fn get(dentry: NonNull<bindings::dentry>) -> Self {
        // SAFETY: By the rules of this function.
        // INVARIANT: The reference has just been taken.
        unsafe { bindings::ferro_dget(dentry.as_ptr()) };
        Self(dentry)
    }

    /// Takes over a reference to a dentry.
    ///
    /// # Safety
    ///
    /// `dentry` points to a live dentry with an inode, and the caller gives up a reference to it.
    pub unsafe fn from_counted(dentry: NonNull<bindings::dentry>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(dentry)
    }

    /// Returns the C pointer, without a reference of its own.
    pub fn as_ptr(&self) -> *mut bindings::dentry {
        self.0.as_ptr()
    }

    /// Sets the size that `stat` shows. Context: any; one writer at a time.
    pub fn set_size(&self, size: usize) {
        let size = bindings::loff_t::try_from(size).unwrap_or(bindings::loff_t::MAX);
        // SAFETY: By the type invariant.
        unsafe { bindings::ferro_i_size_set(self.as_ptr(), size) };
    }

    /// Adds to the size that `stat` shows. Context: any; one writer at a time.
    #[inline]
    pub fn add_size(&self, bytes: usize) {
        // SAFETY: By the type invariant.
        unsafe { bindings::ferro_i_size_add(self.as_ptr(), bytes) };
    }
}

impl Clone for Dentry {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant.
        unsafe { Self::get(self.0) }
    }
}

impl Drop for Dentry {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the object owns a reference.
        unsafe { bindings::dput(self.as_ptr()) };
    }
}
