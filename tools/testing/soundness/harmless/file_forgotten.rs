// SPDX-License-Identifier: GPL-2.0

//! Leaves a file in debugfs behind, whose operations go with the module. Opening it read freed memory. The file is removed
//! with its module, which goes when nobody has it open.
#![forbid(unsafe_code)]

use ferro_sys::sync::counted::Shared;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::fops::UserDst;
use kernel::module::this_module;
use kernel::prelude::*;

module! {
    type: Client,
    name: "file_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a file",
    license: "GPL v2",
}

struct Node;

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<Client>());

impl NodeOps for Node {
    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(b"here\n")
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let dir = Dir::new(c"file_forgotten")?;
        let node = Shared::new(Ok(Node))?;
        core::mem::forget(dir.file(c"file", 0o400, &FILES, node)?);
        // Or dropping it would remove the file.
        core::mem::forget(dir);
        Ok(Self)
    }
}
