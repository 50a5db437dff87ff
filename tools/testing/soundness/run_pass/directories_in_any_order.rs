// SPDX-License-Identifier: GPL-2.0

//! Drops a directory after its parent directory or channel: that was a NULL dereference. A
//! directory stays as long as a directory inside it, and a file's name as long as the file.
#![forbid(unsafe_code)]

use ferro_relay::Channel;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use node::Node;

module! {
    type: Client,
    name: "directories_in_any_order",
    authors: ["Ferrotrace maintainers"],
    description: "Drops directories in the wrong order",
    license: "GPL v2",
}

mod node;

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<Client>());

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channel = Channel::builder(c"in_any_order").open()?;
        let inner = channel.dir().subdir(c"inner")?;
        let innermost = inner.subdir(c"innermost")?;
        drop(channel);
        drop(inner);
        let file = innermost.file(c"file", 0o400, &FILES, Shared::new(Ok(Node))?)?;
        drop(innermost);
        drop(file);
        // The directory was removed: its name is free again.
        let dir = Dir::new(c"in_any_order")?;
        let reference = dir.to_ref();
        drop(dir);
        drop(reference.file(c"file", 0o400, &FILES, Shared::new(Ok(Node))?)?);
        Ok(Self)
    }
}
