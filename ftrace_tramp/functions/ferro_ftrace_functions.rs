// SPDX-License-Identifier: GPL-2.0

//! Functions whose calls user space has counted, or timed from entry to return, and reads from a fast relay channel.
//!
//! In debugfs `ferrotrace_ftrace_functions/`: `control`, which takes a command a line (`ferro_core::function_command`) and tells
//! how it goes, and the files of the channel. `ferrotrace trace functions` uses them; see `Documentation/ferrotrace.rst`.
//!
//! Calls are counted by one `ferro_ftrace::Tracer`, and timed by one `struct fprobe`, the kernel's probe on entry and return, which
//! stands on its function graph.

mod control;
mod raw;
mod record;
mod sessions;

use ferro_fast_relay::Channel;
use ferro_sys::fs::debugfs::File;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::control::ControlFile;
use crate::control::Service;
use crate::control::CONTROL_FILE;
use crate::record::FORMAT;

module! {
    type: Functions,
    name: "ferrotrace_ftrace_functions",
    authors: ["Ferrotrace maintainers"],
    description: "Functions counted and timed for user space",
    license: "GPL v2",
    params: {
        subbuf_size: usize {
            default: 131072,
            description: "Bytes in a sub-buffer",
        },
        n_subbufs: usize {
            default: 8,
            description: "Sub-buffers of a CPU",
        },
    },
}

struct Functions {
    // In the order in which they have to go: no file keeps a session when this goes, so that nothing is traced any more.
    _file: File<Shared<ControlFile>>,
    _channel: Arc<Channel>,
}

impl kernel::Module for Functions {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channel = Channel::builder(c"ferrotrace_ftrace_functions")
            .subbuf_size(module_parameters::subbuf_size.value())
            .n_subbufs(module_parameters::n_subbufs.value())
            .format(FORMAT)
            .open()?;
        let channel = Arc::new(channel, GFP_KERNEL)?;
        let file = Shared::new(Ok(ControlFile::new(Service::new(channel.clone())?)))?;
        let file = channel
            .dir()?
            .file(c"control", 0o600, &CONTROL_FILE, file)?;
        Ok(Self {
            _file: file,
            _channel: channel,
        })
    }
}
