// SPDX-License-Identifier: GPL-2.0

//! The kprobes engine: breakpoints in the kernel's code, with handlers.
//!
//! It implements `<linux/kprobes.h>`:
//!
//! - `exports.rs` has the C functions; `registration.rs` and `kretprobe.rs` have their checks in
//!   front of the registry,
//! - `registry.rs` has the engine's mutex and the state under it; `batch.rs`, `arming.rs` and
//!   `reclaim.rs` have the operations on it, `registered_point.rs` its points,
//! - `probe_address.rs` finds and checks addresses, `error.rs` has the rules that refuse a probe,
//!   and the log of refused probes,
//! - `optprobe.rs` has the life of optprobes: `optimize.rs` places the jumps, `unoptimize.rs`
//!   removes them, `can_optimize.rs` finds where they may stand,
//! - `raw/probe_point.rs` is an address with probes, `insn_copy.rs` prepares how its instruction is
//!   executed, `hit.rs` handles its hits; `ftrace_probes.rs` is for ftrace sites,
//! - `attach.rs` attaches the engine to hook points, `debugfs.rs` is debugfs `kprobes/`,
//! - `raw/` has the code that needs `unsafe`.
//!
//! The crate `ferro_kprobes_builtin`, in `builtin/`, stays in the kernel without the engine.
//! Instructions are in `ferro_core::insn`. See `Documentation/kprobes.rst`.

use kernel::prelude::*;

mod arming;
mod attach;
mod batch;
mod can_optimize;
mod debugfs;
mod error;
mod exports;
mod ftrace_probes;
mod hit;
mod insn_copy;
mod kretprobe;
mod optimize;
mod optprobe;
mod probe_address;
mod raw;
mod reclaim;
mod registered_point;
mod registration;
mod registry;
mod unoptimize;

use attach::Attached;
use raw::optimizer_work::Sysctl;

module! {
    type: KprobesEngine,
    name: "rust_kprobes",
    authors: ["Ferrotrace maintainers"],
    description: "Kernel probes: handlers on any instruction",
    license: "GPL v2",
}

struct KprobesEngine {
    // Dropped in this order. The built-in engine is never detached: probes exist before modules do.
    _sysctl: Option<Sysctl>,
    _attached: Option<Attached>,
    _files: Option<debugfs::Files>,
}

impl kernel::Module for KprobesEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _attached: match cfg!(MODULE) {
                true => Some(Attached::new()?),
                false => None,
            },
            // debugfs and sysctls are optional.
            _files: debugfs::Files::new()
                .inspect_err(|e| pr_warn!("no files in debugfs: error {}\n", e.to_errno()))
                .ok(),
            _sysctl: Sysctl::new()
                .inspect_err(|e| pr_warn!("no sysctl: error {}\n", e.to_errno()))
                .ok(),
        })
    }
}
