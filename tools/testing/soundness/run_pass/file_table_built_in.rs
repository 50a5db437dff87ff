// SPDX-License-Identifier: GPL-2.0

//! Makes a file whose operations are said to be built into the kernel, so that an open file does not keep the module: its
//! next use ran freed code. No file is made of a table that does not name the module it is in.
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
