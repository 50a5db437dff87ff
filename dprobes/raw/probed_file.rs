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
/// `0` is what `ferro_dprobes_file()` has found, with references that this owns.
pub(crate) struct File(bindings::ferro_dprobes_file);

// SAFETY: It can be put by any thread.
unsafe impl Send for File {}
// SAFETY: A shared reference gives away the inode's address, and has names compared that do not change or have locks of their own.
unsafe impl Sync for File {}

impl File {
    /// Finds a file, and reads the byte at an offset.
    ///
    /// Whoever has the file decides when this returns: on another machine, in a process, by a lease.
    ///
    /// Errors: -ENOENT and others of looking up and opening; -EINVAL if it is not a regular file that can be mapped; -ENXIO if it has no such byte.
    pub(crate) fn open(name: &CStr, offset: u64) -> Result<(Self, u8)> {
        let offset = bindings::loff_t::try_from(offset).map_err(|_| ENXIO)?;
        let mut file = MaybeUninit::<bindings::ferro_dprobes_file>::uninit();
        let mut byte = 0;
        // SAFETY: The name ends in 0; the rest are variables of this function.
        to_result(unsafe {
            bindings::ferro_dprobes_file(
                name.as_char_ptr(),
                offset,
                file.as_mut_ptr(),
                &raw mut byte,
            )
        })?;
        // SAFETY: The function has succeeded, so that the file is there.
        let file = unsafe { file.assume_init() };
        // INVARIANT: The references are ours now.
        Ok((Self(file), byte))
    }

    /// The inode that has the code.
    pub(super) fn inode(&self) -> *mut bindings::inode {
        self.0.inode
    }

    /// Returns true if a process that opens the file by its name now gets the same code.
    pub(super) fn is_current(&self) -> bool {
        // SAFETY: By the type invariant it was found, and is not put before `drop()`.
        unsafe { bindings::ferro_dprobes_file_is_current(&raw const self.0) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the references are ours, and the inode is not used after this.
        unsafe { bindings::ferro_dprobes_file_put(&raw mut self.0) };
    }
}
