// SPDX-License-Identifier: GPL-2.0

//! Leaks a file in debugfs with operations in the module's code. Opening the file read freed
//! memory. The file is removed with its module, which cannot be unloaded while the file is open.
#![forbid(unsafe_code)]

use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use node::Node;

module! {
    type: Client,
    name: "file_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a file",
    license: "GPL v2",
}

mod node;

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<Client>());

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        node::leave(c"file_forgotten", &FILES)?;
        Ok(Self)
    }
}
