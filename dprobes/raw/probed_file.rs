// SPDX-License-Identifier: GPL-2.0

//! Probed files of user space.
//!
//! Contexts: process; sleeps.

use core::mem::MaybeUninit;

use ferro_sys::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

/// Regular file, with a reference to it.
///
/// # Invariants
///
/// `0` was filled in by `ferro_dprobes_file()`, with references that this owns.
pub(crate) struct ProbedFile(bindings::ferro_dprobes_file);

// SAFETY: Any thread may put it.
unsafe impl Send for ProbedFile {}
// SAFETY: A shared reference gives access to the inode's address, and compares names, which do not
// change or have locks of their own.
unsafe impl Sync for ProbedFile {}

impl ProbedFile {
    /// Finds a file, and reads the byte at an offset.
    ///
    /// Another machine, a process or the holder of a lease may delay the return indefinitely.
    ///
    /// Errors: -ENOENT and others of looking up and opening; -EINVAL if the file is not regular or
    /// cannot be mapped; -ENXIO if there is no such byte.
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
        // SAFETY: The function has succeeded, so that the file is initialised.
        let file = unsafe { file.assume_init() };
        // INVARIANT: The returned file owns the references.
        Ok((Self(file), byte))
    }

    /// Returns the inode that has the code.
    pub(super) fn inode(&self) -> *mut bindings::inode {
        self.0.inode
    }

    /// Returns true if a process that opens the file by its name now gets the same code.
    pub(super) fn is_current(&self) -> bool {
        // SAFETY: By the type invariant it was found, and is not put before `drop()`.
        unsafe { bindings::ferro_dprobes_file_is_current(&raw const self.0) }
    }
}

impl Drop for ProbedFile {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the references, and the inode is not used after
        // this.
        unsafe { bindings::ferro_dprobes_file_put(&raw mut self.0) };
    }
}
