// SPDX-License-Identifier: GPL-2.0

//! Trampolines of ftrace: the code between a traced function and the callback of the only
//! `ftrace_ops` that traces it.
//!
//! - `registry.rs` has the registry of trampolines, `attach.rs` attaches it to the kernel's hook
//!   points, `debugfs.rs` is debugfs `ftrace_tramp/`,
//! - `raw/` has the code that needs `unsafe`; `exports.rs` has the kernel's entry point if the
//!   engine is built in.
//!
//! `ferro_ftrace_tramp_core` copies trampolines from the kernel's code. `builtin/` is part of the
//! image, for kernel symbols that modules cannot use. See `Documentation/ftrace_tramp.rst`.

mod attach;
mod debugfs;
mod exports;
mod raw;
mod registry;

use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;

use crate::attach::Attached;
use crate::debugfs::Files;
use crate::debugfs::Node;

module! {
    type: TrampolineEngine,
    name: "rust_ftrace_tramp",
    authors: ["Ferrotrace maintainers"],
    description: "Trampolines of ftrace in a shared pool",
    license: "GPL v2",
}

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<TrampolineEngine>());

struct TrampolineEngine {
    // In drop order. A built-in engine was attached during boot.
    _files: Option<Files>,
    _attached: Option<Attached>,
}

impl kernel::Module for TrampolineEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let attached = match cfg!(MODULE) {
            true => Some(Attached::new()?),
            false => None,
        };
        Ok(Self {
            // The engine works without debugfs.
            _files: Files::new(&FILES)
                .inspect_err(|e| pr_warn!("no files in debugfs: error {}\n", e.to_errno()))
                .ok(),
            _attached: attached,
        })
    }
}
