// SPDX-License-Identifier: GPL-2.0

//! Probes that user space adds and removes, and whose hits it reads from a relay channel.
//!
//! In debugfs `ferrotrace_kprobe_events/`: `probes`, which takes a command a line and lists the probes, and the files
//! of the channel. `ferrotrace probe` uses them; see `Documentation/probes.rst`.
#![deny(unsafe_code)]

mod probe;
mod record;
mod table;

use ferro_relay::Channel;
use ferro_sys::fs::debugfs::File;
use ferro_sys::sync::counted::Shared;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::record::Record;
use crate::record::FORMAT;
use crate::table::Probes;
use crate::table::ProbesFile;
use crate::table::PROBES_FILE;

module! {
    type: KprobeEvents,
    name: "ferrotrace_kprobe_events",
    authors: ["Ferrotrace maintainers"],
    description: "Probes from user space",
    license: "GPL v2",
    params: {
        subbuf_records: usize {
            default: 256,
            description: "Hits that a sub-buffer holds",
        },
        n_subbufs: usize {
            default: 16,
            description: "Sub-buffers of a CPU",
        },
    },
}

struct KprobeEvents {
    // In the order in which they have to go: first the file, then the probes with the channel.
    _file: File<Shared<ProbesFile>>,
    _probes: Arc<Probes>,
}

impl kernel::Module for KprobeEvents {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let records = module_parameters::subbuf_records.value();
        let subbuf_size = records.checked_mul(size_of::<Record>()).ok_or(EINVAL)?;
        let channel = Channel::builder(c"ferrotrace_kprobe_events")
            .subbuf_size(subbuf_size)
            .n_subbufs(module_parameters::n_subbufs.value())
            .format(FORMAT)
            .open()?;
        let channel = Arc::new(channel, GFP_KERNEL)?;
        let probes = Probes::new(channel.clone())?;
        let file = Shared::new(Ok(ProbesFile {
            probes: probes.clone(),
            listed: KVVec::new(),
        }))?;
        let file = channel.dir().file(c"probes", 0o600, &PROBES_FILE, file)?;
        Ok(Self {
            _file: file,
            _probes: probes,
        })
    }
}
