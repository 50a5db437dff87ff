// SPDX-License-Identifier: GPL-2.0

//! Function calls, counted or timed from entry to return for user space, which reads a fast relay
//! channel.
//!
//! debugfs `ferrotrace_ftrace_functions/` has `control` and the files of the channel. `control`
//! takes one command a line (`ferro_ftrace_functions_core`) and shows the session's state.
//! `ferrotrace trace functions` uses them; see `Documentation/ferrotrace.rst`.
//!
//! One `ferro_ftrace::Tracer` counts calls. One `struct fprobe`, the kernel's probe on entry and
//! return, times them; it uses the kernel's function graph.

mod debugfs;
mod raw;
mod record;
mod sessions;
mod tracing;

use ferro_fast_relay::Channel;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::debugfs::ControlFile;
use crate::record::FORMAT;
use crate::sessions::Sessions;

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

static CONTROL_FILE: FileTable<Shared<ControlFile>> = FileTable::new(this_module::<Functions>());

struct Functions {
    // In drop order: without the file no session is left, so nothing is traced.
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
        let file = Shared::new(Ok(ControlFile::new(Sessions::new(channel.clone())?)))?;
        let file = channel
            .dir()?
            .file(c"control", 0o600, &CONTROL_FILE, file)?;
        Ok(Self {
            _file: file,
            _channel: channel,
        })
    }
}
