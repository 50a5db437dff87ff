// SPDX-License-Identifier: GPL-2.0

//! Files of user space that are probed.
//!
//! Contexts: process; sleeps.

use core::mem::MaybeUninit;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

/// A regular file, which stays as long as this.
///
/// # Invariants
///
/// `path` is a reference that this owns, and `inode` is the inode of what it refers to.
pub(crate) struct File {
    path: bindings::path,
    inode: *mut bindings::inode,
}

// SAFETY: A path can be put by any thread.
unsafe impl Send for File {}
// SAFETY: A shared reference only gives away the inode's address.
unsafe impl Sync for File {}

impl File {
    /// Finds a file, and reads the byte at an offset.
    ///
    /// Whoever has the file decides when this returns: on another machine, in a process, by a lease.
    ///
    /// Errors: -ENOENT and others of looking up and opening; -EINVAL if it is not a regular file that can be mapped; -ENXIO if it has no such byte.
    pub(crate) fn open(name: &CStr, offset: u64) -> Result<(Self, u8)> {
        let offset = bindings::loff_t::try_from(offset).map_err(|_| ENXIO)?;
        let mut path = MaybeUninit::<bindings::path>::uninit();
        let mut inode = core::ptr::null_mut();
        let mut byte = 0;
        // SAFETY: The name ends in 0; the rest are variables of this function.
        to_result(unsafe {
            bindings::ferro_dprobes_file(
                name.as_char_ptr(),
                offset,
                path.as_mut_ptr(),
                &raw mut inode,
                &raw mut byte,
            )
        })?;
        // SAFETY: The function has succeeded, so that the path is there.
        let path = unsafe { path.assume_init() };
        // INVARIANT: The reference is ours now.
        Ok((Self { path, inode }, byte))
    }

    /// The inode that has the code.
    pub(super) fn inode(&self) -> *mut bindings::inode {
        self.inode
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours, and the inode is not used any more.
        unsafe { bindings::path_put(&raw const self.path) };
    }
}
