// SPDX-License-Identifier: GPL-2.0

//! A file that says "here".

use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

/// Makes the directory and in it the file, which stay.
#[allow(dead_code)] // Not all want that.
pub(crate) fn leave(dir: &CStr, files: &'static FileTable<Shared<Node>>) -> Result {
    let dir = Dir::new(dir)?;
    core::mem::forget(dir.file(c"file", 0o400, files, new()?)?);
    // Dropping it would remove the file.
    core::mem::forget(dir);
    Ok(())
}

/// Creates the object of the file.
pub(crate) fn new() -> Result<ARef<Shared<Node>>> {
    Shared::new(Ok(Node))
}

/// The object of the file.
pub(crate) struct Node;

impl NodeOps for Node {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(b"here\n")
    }
}
