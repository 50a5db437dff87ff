// SPDX-License-Identifier: GPL-2.0

//! Makes a file with a table of operations that claims to be built into the kernel. An open file
//! then held no reference to the module: its next use ran freed code. Files are refused for a table
//! that does not name the module that contains it.
#![forbid(unsafe_code)]

use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use node::Node;

module! {
    type: Client,
    name: "file_table_built_in",
    authors: ["Ferrotrace maintainers"],
    description: "Says that it is the kernel",
    license: "GPL v2",
}

mod node;

static FILES: FileTable<Shared<Node>> = FileTable::built_in();

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        node::leave(c"file_table_built_in", &FILES)?;
        Ok(Self)
    }
}
