// SPDX-License-Identifier: GPL-2.0

//! The kprobes engine: breakpoints in the kernel's code, with handlers.
//!
//! It implements `<linux/kprobes.h>`:
//!
//! - `exports.rs` has the C functions, `registration.rs` and `kretprobe.rs` what they do before the registry does,
//! - `registry.rs` has the engine's mutex, `state.rs` what is registered, `batch.rs`, `arming.rs` and `reclaim.rs` what is done
//!   with it; `registered_point.rs` its points,
//! - `probe_address.rs` and `refusal.rs` say where a probe goes and what refuses it, `refused.rs` has what was refused,
//! - `optprobe.rs` says when there are jumps in the place of breakpoints, `optimize.rs` puts them there, `can_optimize.rs` says where they may
//!   be, `detour_word.rs` where the copies are,
//! - `probe_point.rs` is an address with probes, `hit.rs` what happens there; `ftrace_probes.rs` is for ftrace sites,
//! - `attach.rs` attaches the engine to hook points, `debugfs.rs` is debugfs `kprobes/`,
//! - `raw/` is what needs `unsafe`.
//!
//! What stays in the kernel without the engine is the crate `ferro_kprobes_builtin`, in `builtin/`; instructions are in
//! `ferro_core::insn`. See `Documentation/kprobes.rst`.

use kernel::prelude::*;

mod arming;
mod attach;
mod batch;
mod can_optimize;
mod debugfs;
mod detour_word;
mod error;
mod exports;
mod ftrace_probes;
mod hit;
mod kretprobe;
mod optimize;
mod optprobe;
mod probe_address;
mod probe_point;
mod raw;
mod reclaim;
mod refusal;
mod refused;
mod registered_point;
mod registration;
mod registry;
mod state;
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
    // Dropped in this order. Built in, there is nothing to detach: probes are there before modules are.
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
            // They may be switched off.
            _files: debugfs::Files::new()
                .inspect_err(|e| pr_warn!("no files in debugfs: error {}\n", e.to_errno()))
                .ok(),
            _sysctl: Sysctl::new()
                .inspect_err(|e| pr_warn!("no sysctl: error {}\n", e.to_errno()))
                .ok(),
        })
    }
}
