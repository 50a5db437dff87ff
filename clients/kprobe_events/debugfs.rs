// SPDX-License-Identifier: GPL-2.0

//! debugfs files of the client: `probes` adds, removes and lists probes, `totals` adds up their
//! hits, `format` describes their records, and `lost` counts lost ones.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_kprobe_events_core::probe_command::lines;
use ferro_kprobe_events_core::probe_command::TableCommand;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::probe::Sink;
use crate::registry::Probes;
use crate::totals::Totals;

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
        from.take(self.probes.run(&text, &self.probes.channel())?);
        Ok(())
    }
}

/// File `totals`. Each open file has its own tables and probes, until a process closes it.
pub(crate) struct TotalsFile {
    probes: Arc<Probes>,
    session: Option<Arc<Session>>,
}

/// Session of an open file.
#[pin_data]
struct Session {
    probes: Arc<Probes>,
    #[pin]
    tables: Mutex<Option<Tables>>,
    /// Contents of the tables when their start was last read.
    #[pin]
    text: Mutex<KVVec<u8>>,
}

/// Tables, with the probes for them. Dropping this removes the probes.
struct Tables {
    probes: Arc<Probes>,
    totals: Arc<Totals>,
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.probes.remove_of(&self.totals);
    }
}

impl TotalsFile {
    pub(crate) fn new(probes: Arc<Probes>) -> Self {
        Self {
            probes,
            session: None,
        }
    }
}

impl NodeOps for TotalsFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        let probes = self.probes.clone();
        let session = Arc::pin_init(
            pin_init!(Session {
                probes,
                tables <- new_mutex!(None),
                text <- new_mutex!(KVVec::new()),
            }),
            GFP_KERNEL,
        )?;
        Ok(Some(Self {
            probes: self.probes.clone(),
            session: Some(session),
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        self.session.as_ref().ok_or(EINVAL)?.read(to)
    }

    fn write(&self, from: &UserSrc) -> Result {
        if from.len() > WRITE_MAX {
            return Err(EINVAL);
        }
        let mut text = KVVec::new();
        text.resize(from.len(), 0, GFP_KERNEL)?;
        from.bytes(&mut text)?;
        let session = self.session.as_ref().ok_or(EINVAL)?;
        from.take(session.run(&text)?);
        Ok(())
    }
}

impl Session {
    /// Executes command lines: the first makes the tables, the others are as in `probes`. Returns
    /// the number of executed bytes.
    ///
    /// Errors: -EINVAL if the first line makes no table, -E2BIG for too large tables, -ENOMEM,
    /// and the errors of [`Probes::run`].
    fn run(&self, text: &[u8]) -> Result<usize> {
        let mut tables = self.tables.lock();
        if let Some(Tables { probes, totals }) = &*tables {
            return probes.run(text, &Sink::Totals(totals.clone()));
        }
        let (line, end) = lines(text).next().ok_or(EINVAL)?;
        let command = TableCommand::parse(line).ok_or(EINVAL)?;
        let totals = Arc::new(Totals::new(&command)?, GFP_KERNEL)?;
        let probes = self.probes.clone();
        *tables = Some(Tables { probes, totals });
        Ok(end)
    }

    /// Copies the contents of the tables. A read of the start takes them.
    fn read(&self, to: &mut UserDst) -> Result {
        let tables = self.tables.lock();
        let totals = &tables.as_ref().ok_or(EINVAL)?.totals;
        let mut text = self.text.lock();
        if to.position() == 0 {
            *text = totals.read()?;
        }
        to.copy_at_position(&text)
    }
}
