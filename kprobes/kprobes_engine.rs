// SPDX-License-Identifier: GPL-2.0

//! The kprobes engine: breakpoints in the kernel's code, with handlers.
//!
//! It implements `<linux/kprobes.h>`:
//!
//! - `exports.rs` has the C functions, `register.rs` and `kretprobe.rs` what they do before the registry does,
//! - `registry.rs` has the engine's mutex, `engine.rs` what is registered, `batch.rs`, `arming.rs` and `retiring.rs` what is done
//!   with it; `point_entry.rs` its points,
//! - `address.rs` and `refusal.rs` say where a probe goes and what refuses it, `refused.rs` has what was refused,
//! - `jump.rs` says when there are jumps in the place of breakpoints, `placing.rs` puts them there, `displace.rs` says where they may
//!   be, `parts.rs` where the copies are,
//! - `point.rs` is an address with probes, `hit.rs` what happens there; `ftrace.rs` is for ftrace sites,
//! - `attach.rs` attaches the engine to hook points, `files.rs` is debugfs `kprobes/`,
//! - `raw/` is what needs `unsafe`.
//!
//! What stays in the kernel without the engine is the crate `ferro_kprobes_builtin`, in `builtin/`; instructions are in
//! `ferro_core::insn`. See `Documentation/kprobes.rst`.

use kernel::prelude::*;

mod address;
mod arming;
mod attach;
mod batch;
mod displace;
mod engine;
mod error;
mod exports;
mod files;
mod ftrace;
mod hit;
mod idle;
mod jump;
mod kretprobe;
mod parts;
mod placing;
mod point;
mod point_entry;
mod raw;
mod refusal;
mod refused;
mod register;
mod registry;
mod retiring;

use attach::Attached;
use raw::optimiser::Sysctl;

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
    _files: Option<files::Files>,
}

impl kernel::Module for KprobesEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _attached: match cfg!(MODULE) {
                true => Some(Attached::new()?),
                false => None,
            },
            // They may be switched off.
            _files: files::Files::new()
                .inspect_err(|e| pr_warn!("no files in debugfs: error {}\n", e.to_errno()))
                .ok(),
            _sysctl: Sysctl::new()
                .inspect_err(|e| pr_warn!("no sysctl: error {}\n", e.to_errno()))
                .ok(),
        })
    }
}
