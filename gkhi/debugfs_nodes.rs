// SPDX-License-Identifier: GPL-2.0

//! Nodes of debugfs `gkhi/`. `debugfs.rs` has their contents.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_gkhi_core::Op;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;

/// Takes the lock for creating and removing nodes.
pub(crate) fn lock_files() -> StaticGuard<()> {
    static FILES: StaticMutex<()> = static_mutex!(ferro_hook_files_lock, ());
    FILES.lock()
}

/// Directory `gkhi/` and its own files.
pub(crate) struct Root {
    // In the order of removal.
    _files: KVec<File<Shared<RootFile>>>,
    dir: Dir,
}

impl Root {
    /// Creates the directory and the files.
    pub(crate) fn new() -> Result<Self> {
        let dir = Dir::new(c"gkhi")?;
        let mut files = KVec::new();
        let mut add = |name, mode, file| -> Result {
            let file = dir.file(name, mode, &ROOT_FILES, Shared::new(Ok(file))?)?;
            Ok(files.push(file, GFP_KERNEL)?)
        };
        add(c"hooks", 0o400, RootFile::Hooks)?;
        add(c"arm", 0o200, RootFile::Change(Op::Arm))?;
        add(c"disarm", 0o200, RootFile::Change(Op::Disarm))?;
        Ok(Self { _files: files, dir })
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }
}

/// File in `gkhi/` itself.
pub(crate) enum RootFile {
    /// `hooks`
    Hooks,
    /// Contents of `hooks` at the time of open().
    Listed(KVVec<u8>),
    /// `arm` or `disarm`
    Change(Op),
}

static ROOT_FILES: FileTable<Shared<RootFile>> = FileTable::built_in();

/// File of an exit.
pub(crate) type ExitFile = File<Shared<ArmedFile>>;

/// Creates the file of exit `id`.
pub(crate) fn exit_file(dir: &Dir, name: &CStr, id: usize) -> Result<ExitFile> {
    dir.file(name, 0o600, &EXIT_FILES, Shared::new(Ok(ArmedFile { id }))?)
}

/// File HOOK/EXIT: 1 if the exit is armed, otherwise 0.
pub(crate) struct ArmedFile {
    pub(crate) id: usize,
}

static EXIT_FILES: FileTable<Shared<ArmedFile>> = FileTable::built_in();
