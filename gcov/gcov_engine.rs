// SPDX-License-Identifier: GPL-2.0

//! Coverage exporter: shows the counters of code built with `-fprofile-arcs` as files that `gcov`
//! reads.
//!
//! - `registry.rs` has the files, `file.rs` one file, `objects.rs` the objects of a file,
//! - `namespace.rs` has the names in debugfs `gcov/`, `paths.rs` helpers for paths, `debugfs.rs`
//!   the open files,
//! - `attach.rs` attaches the engine to the kernel's hook points and takes over from
//!   `kernel/gcov/`,
//! - `raw/` has the code that needs `unsafe`.
//!
//! The formats are in `ferro_gcov_core`, the parts that must be in the image in `builtin/`. See
//! `Documentation/gcov.rst`.

// A built-in engine is never removed and gives nothing back.
#![cfg_attr(not(MODULE), allow(dead_code))]

use kernel::prelude::*;

mod attach;
mod debugfs;
mod file;
mod namespace;
mod objects;
mod paths;
mod raw;
mod registry;

use attach::Attached;

module! {
    type: GcovEngine,
    name: "rust_gcov",
    authors: ["Ferrotrace maintainers"],
    description: "Exporter of coverage",
    license: "GPL v2",
    params: {
        persist: i32 {
            default: -1,
            description: "Keep the counters of unloaded modules: 0 or 1; -1: as gcov_persist= says",
        },
    },
}

struct GcovEngine {
    _attached: Attached,
}

impl kernel::Module for GcovEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let persist = match module_parameters::persist.value() {
            0 => Some(false),
            persist if persist > 0 => Some(true),
            _ => None,
        };
        Ok(Self {
            _attached: Attached::new(persist)?,
        })
    }
}
