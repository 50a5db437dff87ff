// SPDX-License-Identifier: GPL-2.0

//! Probes that user space adds and removes; it reads their hits from a fast relay channel.
//!
//! debugfs `ferrotrace_kprobe_events/` has `probes`, `totals`, `keep`, `format`, `lost`, and the
//! files of the channel. `probes` takes one command a line and lists the probes, `totals` adds up
//! hits by keys, `keep` adds probes with records that survive a reboot, `format` describes the
//! records. `ferrotrace probe` uses them; see `Documentation/probes.rst`.
#![deny(unsafe_code)]

mod debugfs;
mod fetch;
mod format;
mod probe;
mod record;
mod registry;
mod selection;
mod sinks;
mod totals;

use ferro_fast_relay::Channel;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::debugfs::FileContent;
use crate::debugfs::OpenSink;
use crate::debugfs::ProbesFile;
use crate::debugfs::SessionFile;
use crate::registry::Probes;

module! {
    type: KprobeEvents,
    name: "ferrotrace_kprobe_events",
    authors: ["Ferrotrace maintainers"],
    description: "Probes from user space",
    license: "GPL v2",
    params: {
        subbuf_size: usize {
            default: 65536,
            description: "Bytes in a sub-buffer",
        },
        n_subbufs: usize {
            default: 16,
            description: "Sub-buffers of a CPU",
        },
    },
}

static FILES: FileTable<Shared<ProbesFile>> = FileTable::new(this_module::<KprobeEvents>());
static SESSIONS: FileTable<Shared<SessionFile>> = FileTable::new(this_module::<KprobeEvents>());

struct KprobeEvents {
    // In drop order: first the files, then the probes with the channel.
    _files: [File<Shared<ProbesFile>>; 3],
    _sessions: [File<Shared<SessionFile>>; 2],
    _probes: Arc<Probes>,
}

impl kernel::Module for KprobeEvents {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let channel = Channel::builder(c"ferrotrace_kprobe_events")
            .subbuf_size(module_parameters::subbuf_size.value())
            .n_subbufs(module_parameters::n_subbufs.value())
            .open()?;
        let channel = Arc::new(channel, GFP_KERNEL)?;
        let probes = Probes::new(channel.clone())?;
        let dir = channel.dir()?;
        let file = |name, mode, shows| {
            let file = Shared::new(Ok(ProbesFile::new(shows, probes.clone())))?;
            dir.file(name, mode, &FILES, file)
        };
        let files = [
            file(c"probes", 0o600, FileContent::Probes)?,
            file(c"format", 0o400, FileContent::Format)?,
            file(c"lost", 0o400, FileContent::Lost)?,
        ];
        let session = |name, open_sink: OpenSink| {
            let file = Shared::new(Ok(SessionFile::new(probes.clone(), open_sink)))?;
            dir.file(name, 0o600, &SESSIONS, file)
        };
        Ok(Self {
            _files: files,
            _sessions: [
                session(c"totals", sinks::open_totals)?,
                session(c"keep", sinks::open_kept)?,
            ],
            _probes: probes,
        })
    }
}
