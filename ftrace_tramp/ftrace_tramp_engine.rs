// SPDX-License-Identifier: GPL-2.0

//! The trampolines of ftrace: the code between a traced function and the callback of the one `ftrace_ops` that traces it.
//!
//! - `registry.rs` has the trampolines that there are, `attach.rs` attaches it to the kernel's hook points, `debugfs.rs` is debugfs
//!   `ftrace_tramp/`,
//! - `raw/` is what needs `unsafe`; `exports.rs` is how the kernel starts it when it is built in.
//!
//! How a trampoline is made of the kernel's code is in `ferro_core::tramp`; what no module can have of the kernel is in
//! `builtin/`, in the image. See `Documentation/ftrace_tramp.rst`.

use kernel::prelude::*;

mod attach;
mod debugfs;
mod exports;
mod raw;
mod registry;

use attach::Attached;

module! {
    type: TrampolineEngine,
    name: "rust_ftrace_tramp",
    authors: ["Ferrotrace maintainers"],
    description: "Trampolines of ftrace in a shared pool",
    license: "GPL v2",
}

struct TrampolineEngine {
    // In the order in which they have to go. Built in, it has been attached long before.
    _files: Option<debugfs::Files>,
    _attached: Option<Attached>,
}

impl kernel::Module for TrampolineEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let attached = match cfg!(MODULE) {
            true => Some(Attached::new()?),
            false => None,
        };
        Ok(Self {
            // They may be switched off.
            _files: debugfs::Files::new()
                .inspect_err(|e| pr_warn!("no files in debugfs: error {}\n", e.to_errno()))
                .ok(),
            _attached: attached,
        })
    }
}
