// SPDX-License-Identifier: GPL-2.0

//! Makes a file whose operations are said to be built into the kernel, so that an open file does not keep the module: its
//! next use ran freed code. No file is made of a table that does not name the module it is in.
#![forbid(unsafe_code)]

use ferro_sys::sync::counted::Shared;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::fops::UserDst;
use kernel::prelude::*;

module! {
    type: Client,
    name: "file_table_built_in",
    authors: ["Ferrotrace maintainers"],
    description: "Says that it is the kernel",
    license: "GPL v2",
}

struct Node;

static FILES: FileTable<Shared<Node>> = FileTable::built_in();

impl NodeOps for Node {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(b"here\n")
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let dir = Dir::new(c"file_table_built_in")?;
        let node = Shared::new(Ok(Node))?;
        core::mem::forget(dir.file(c"file", 0o400, &FILES, node)?);
        core::mem::forget(dir);
        Ok(Self)
    }
}
