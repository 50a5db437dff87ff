// SPDX-License-Identifier: GPL-2.0

//! Live coverage: breakpoints in the code of the running kernel, which are removed after their
//! first hit.
//!
//! debugfs `ferrotrace_coverage/` has `blocks` and `control`. A process opens `blocks`, writes
//! places to it, for example one of each basic block, and reads which of them have been executed.
//! `control` arms and disarms the breakpoints. See `Documentation/live-coverage.rst`.
#![deny(unsafe_code)]

mod debugfs;
#[allow(unsafe_code)]
mod raw;
mod session;

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Registered;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;

use crate::debugfs::BlocksFile;
use crate::debugfs::ControlFile;
use crate::raw::modules;
use crate::raw::text::Ready;
use crate::raw::trap::Hook;
use crate::raw::worker::Worker;
use crate::session::Coverage;

module! {
    type: LiveCoverage,
    name: "ferrotrace_coverage",
    authors: ["Ferrotrace maintainers"],
    description: "Coverage of the running kernel",
    license: "GPL v2",
}

static BLOCKS: FileTable<Shared<BlocksFile>> = FileTable::new(this_module::<LiveCoverage>());
static CONTROL: FileTable<Shared<ControlFile>> = FileTable::new(this_module::<LiveCoverage>());

struct LiveCoverage {
    // In drop order: first the files, with the session of an open one.
    _blocks: File<Shared<BlocksFile>>,
    _control: File<Shared<ControlFile>>,
    _dir: Dir,
    _modules: Registered<ModuleEvent>,
    _traps: Hook,
    _worker: Worker,
}

impl kernel::Module for LiveCoverage {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let ready = Ready::new()?;
        let coverage = Coverage::new(ready)?;
        let worker = Worker::new(ready);
        let traps = Hook::new(ready)?;
        let notified = coverage.clone();
        let modules = modules::register(move |module| notified.forget(module))?;
        let dir = Dir::new(c"ferrotrace_coverage")?;
        let control = Shared::new(Ok(ControlFile::new(coverage.clone())))?;
        let control = dir.file(c"control", 0o600, &CONTROL, control)?;
        let blocks = Shared::new(Ok(BlocksFile::new(coverage)))?;
        Ok(Self {
            _blocks: dir.file(c"blocks", 0o600, &BLOCKS, blocks)?,
            _control: control,
            _dir: dir,
            _modules: modules,
            _traps: traps,
            _worker: worker,
        })
    }
}
