// SPDX-License-Identifier: GPL-2.0

//! Relay engine: per-CPU buffers that kernel code writes and user space reads.
//!
//! Implements `<linux/relay.h>`. `exports.rs` has the C functions, `registry.rs` the open channels,
//! `channel.rs` a channel, `buf.rs` and `engine_write.rs` a buffer, and `file.rs` its file. `raw/`
//! has the structures that C sees and the calls to clients. The arithmetic is in
//! `ferro_core::relay`. See `Documentation/relay.rst`.

use ferro_gkhi::points::CpuPrepare;
use ferro_gkhi::Registered;
use kernel::prelude::*;

mod buf;
mod channel;
mod engine_write;
mod exports;
mod file;
mod raw;
mod registry;
mod spliced_pages;

module! {
    type: RelayEngine,
    name: "rust_relay",
    authors: ["Ferrotrace maintainers"],
    description: "Relay channels: per-CPU buffers from the kernel to user space",
    license: "GPL v2",
}

struct RelayEngine {
    /// `None` if built in: the kernel then calls `relay_prepare_cpu()`.
    _prepare: Option<Registered<CpuPrepare>>,
}

impl kernel::Module for RelayEngine {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        if !cfg!(MODULE) {
            return Ok(Self { _prepare: None });
        }
        let prepare = Registered::before_cpus(c"rust_relay", registry::prepare_cpu)?;
        Ok(Self {
            _prepare: Some(prepare),
        })
    }
}
