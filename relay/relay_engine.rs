// SPDX-License-Identifier: GPL-2.0

//! The relay engine: per-CPU buffers that kernel code writes and user space reads.
//!
//! It implements `<linux/relay.h>`. `ffi.rs` has the C functions; `registry.rs` the open channels;
//! `channel.rs`, `buf.rs` (with `write.rs`) and `file.rs` an object each; `abi.rs` the structures that C sees. The
//! arithmetic is in `ferro_core::relay`. See `Documentation/relay.rst`.

use ferro_sys::cpu::CpuId;
use ferro_sys::hotplug::PrepareCpu;
use ferro_sys::hotplug::PrepareHook;
use kernel::prelude::*;

mod abi;
mod buf;
mod channel;
mod ffi;
mod file;
mod loans;
mod registry;
mod write;

module! {
    type: RelayEngine,
    name: "rust_relay",
    authors: ["Ferrotrace maintainers"],
    description: "Relay channels: per-CPU buffers from the kernel to user space",
    license: "GPL v2",
}

struct RelayEngine {
    /// A built-in engine is in the kernel's own table.
    _prepare: Option<PrepareHook<RelayEngine>>,
}

impl kernel::Module for RelayEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let prepare = match cfg!(MODULE) {
            true => Some(PrepareHook::new(c"ferrotrace/relay:prepare")?),
            false => None,
        };
        Ok(Self { _prepare: prepare })
    }
}

impl PrepareCpu for RelayEngine {
    fn prepare(cpu: CpuId) -> Result {
        registry::prepare_cpu(cpu)
    }
}
