// SPDX-License-Identifier: GPL-2.0

//! A file that says "here".

use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::user::UserDst;
use ferro_sys::sync::counted::Shared;
use kernel::prelude::*;

/// Makes the directory and in it the file, which stay.
#[allow(dead_code)] // Not all want that.
pub fn leave(dir: &CStr, files: &'static FileTable<Shared<Node>>) -> Result {
    let dir = Dir::new(dir)?;
    let node = Shared::new(Ok(Node))?;
    core::mem::forget(dir.file(c"file", 0o400, files, node)?);
    // Or dropping it would remove the file.
    core::mem::forget(dir);
    Ok(())
}

/// What is in the file.
pub struct Node;

impl NodeOps for Node {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(b"here\n")
    }
}
