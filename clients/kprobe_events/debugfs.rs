// SPDX-License-Identifier: GPL-2.0

//! debugfs files of the client: `probes`, which adds, removes and lists probes, `format`, which
//! describes their records, and `lost`.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::registry::Probes;

/// Maximum length of a write in bytes.
const WRITE_MAX: usize = 1 << 16;

/// Content of a debugfs file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileContent {
    /// List of the probes. This file takes commands.
    Probes,
    /// Description of the records.
    Format,
    /// Number of lost records.
    Lost,
}

/// File with a snapshot, taken when it was opened.
pub(crate) struct ProbesFile {
    shows: FileContent,
    probes: Arc<Probes>,
    text: KVVec<u8>,
}

impl ProbesFile {
    pub(crate) fn new(shows: FileContent, probes: Arc<Probes>) -> Self {
        Self {
            shows,
            probes,
            text: KVVec::new(),
        }
    }
}

impl NodeOps for ProbesFile {
    fn snapshot(&self, for_reading: bool) -> Result<Option<Self>> {
        // The list of many probes takes long, and a command that adds probes does not read it.
        if !for_reading {
            return Ok(None);
        }
        let probes = self.probes.clone();
        let text = match self.shows {
            FileContent::Probes => probes.list()?,
            FileContent::Format => probes.format()?,
            FileContent::Lost => probes.lost()?,
        };
        let shows = self.shows;
        Ok(Some(Self {
            shows,
            probes,
            text,
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(&self.text)
    }

    fn write(&self, from: &UserSrc) -> Result {
        if self.shows != FileContent::Probes || from.len() > WRITE_MAX {
            return Err(EINVAL);
        }
        let mut text = KVVec::new();
        text.resize(from.len(), 0, GFP_KERNEL)?;
        from.bytes(&mut text)?;
        from.take(self.probes.run(&text)?);
        Ok(())
    }
}
