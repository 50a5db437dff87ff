// SPDX-License-Identifier: GPL-2.0

//! Leaves directories and a link in debugfs behind. Their names stayed taken until the next boot.
//! They are removed with their module.
#![forbid(unsafe_code)]

use core::mem::forget;

use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use node::Node;

module! {
    type: Client,
    name: "dir_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets directories",
    license: "GPL v2",
}

#[allow(dead_code)]
mod node;

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<Client>());

struct Client {
    /// Dropped after its parent directory was leaked.
    _inner: Dir,
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let outer = Dir::new(c"dir_forgotten")?;
        let inner = outer.subdir(c"inner")?;
        forget(inner.file(c"file", 0o400, &FILES, node::new()?)?);
        forget(inner.subdir(c"innermost")?);
        forget(outer.link(c"link", c"inner/file")?);
        forget(DirRef::ROOT.link(c"dir_forgotten_link", c"dir_forgotten")?);
        forget(outer);
        Ok(Self { _inner: inner })
    }
}
