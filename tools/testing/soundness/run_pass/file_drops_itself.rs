// SPDX-License-Identifier: GPL-2.0

//! Drops a file and its directory in an operation of the file: in a read, a write, an open.
//! Removing a file waits for its operations, so the task waited for itself, with the directory
//! locked. A work item now does the drops that the caller would wait for.
#![forbid(unsafe_code)]

use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

module! {
    type: Client,
    name: "file_drops_itself",
    authors: ["Ferrotrace maintainers"],
    description: "Drops files in their own operations",
    license: "GPL v2",
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    Opened,
    Read,
    Written,
}

/// The file and its directory, in either order; both have to go.
enum Made {
    FileFirst(
        #[allow(dead_code)] File<Shared<Node>>,
        #[allow(dead_code)] Dir,
    ),
    DirFirst(
        #[allow(dead_code)] Dir,
        #[allow(dead_code)] File<Shared<Node>>,
    ),
}

struct Node {
    when: When,
    own: Arc<Mutex<Option<Made>>>,
}

impl Node {
    fn at(&self, when: When) {
        if self.when == when {
            let own = self.own.lock().take();
            drop(own);
        }
    }
}

impl NodeOps for Node {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        self.at(When::Opened);
        Ok(None)
    }

    fn read(&self, to: &mut UserDst) -> Result {
        self.at(When::Read);
        to.copy_at_position(b"read\n")
    }

    fn write(&self, from: &UserSrc) -> Result {
        self.at(When::Written);
        from.number().map(drop)
    }
}

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<Client>());

fn make(name: &CStr, when: When, file_first: bool) -> Result<Arc<Mutex<Option<Made>>>> {
    let own = Arc::pin_init(new_mutex!(None), GFP_KERNEL)?;
    let node = Shared::new(Ok::<_, Error>(Node {
        when,
        own: own.clone(),
    }))?;
    let dir = Dir::new(name)?;
    let file = dir.file(c"node", 0o600, &FILES, node)?;
    *own.lock() = Some(match file_first {
        true => Made::FileFirst(file, dir),
        false => Made::DirFirst(dir, file),
    });
    Ok(own)
}

struct Client {
    _made: [Arc<Mutex<Option<Made>>>; 4],
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _made: [
                make(c"sound_opened", When::Opened, true)?,
                make(c"sound_read", When::Read, true)?,
                make(c"sound_written", When::Written, true)?,
                make(c"sound_dir_first", When::Read, false)?,
            ],
        })
    }
}
