// SPDX-License-Identifier: GPL-2.0

//! debugfs files of the client: `probes` adds, removes and lists probes. `totals` and `keep` add
//! probes with another destination: tables, and memory that survives a reboot. `format` describes
//! the records, and `lost` is the number of lost records.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_kprobe_events_core::probe_command::lines;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::probe::Sink;
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
        from.take(self.probes.run(&text, &self.probes.channel())?);
        Ok(())
    }
}

/// Function that opens the destination of a session's hits, as the first written line names it.
pub(crate) type OpenSink = fn(&[u8]) -> Result<Sink>;

/// File `totals` or `keep`. Each open file has a destination for the hits of the probes that are
/// added through it.
pub(crate) struct SessionFile {
    probes: Arc<Probes>,
    open_sink: OpenSink,
    session: Option<Arc<Session>>,
}

/// Session of an open file.
#[pin_data]
struct Session {
    probes: Arc<Probes>,
    open_sink: OpenSink,
    #[pin]
    destination: Mutex<Option<Destination>>,
    /// Text of the tables, as of the last read at position 0.
    #[pin]
    text: Mutex<KVVec<u8>>,
}

/// Destination of a session's hits. Dropping this removes the probes of tables. The probes of a
/// channel stay, and keep it open.
struct Destination {
    probes: Arc<Probes>,
    sink: Sink,
}

impl Drop for Destination {
    fn drop(&mut self) {
        if let Sink::Totals(totals) = &self.sink {
            self.probes.remove_of(totals);
        }
    }
}

impl SessionFile {
    pub(crate) fn new(probes: Arc<Probes>, open_sink: OpenSink) -> Self {
        Self {
            probes,
            open_sink,
            session: None,
        }
    }
}

impl NodeOps for SessionFile {
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        let (probes, open_sink) = (self.probes.clone(), self.open_sink);
        let session = Arc::pin_init(
            pin_init!(Session {
                probes,
                open_sink,
                destination <- new_mutex!(None),
                text <- new_mutex!(KVVec::new()),
            }),
            GFP_KERNEL,
        )?;
        Ok(Some(Self {
            session: Some(session),
            ..Self::new(self.probes.clone(), self.open_sink)
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
    /// Executes command lines. The first write opens the destination by its first line, and
    /// executes only this line. Later lines are commands as in `probes`. Returns the number of
    /// executed bytes.
    ///
    /// Errors: -EINVAL without a line, and the errors of `open_sink` and [`Probes::run`].
    fn run(&self, text: &[u8]) -> Result<usize> {
        let mut destination = self.destination.lock();
        if let Some(Destination { probes, sink }) = &*destination {
            return probes.run(text, sink);
        }
        let (line, end) = lines(text).next().ok_or(EINVAL)?;
        let sink = (self.open_sink)(line)?;
        let probes = self.probes.clone();
        *destination = Some(Destination { probes, sink });
        Ok(end)
    }

    /// Copies the text of the tables. A read at position 0 renews it. Errors: -EINVAL if there are
    /// no tables.
    fn read(&self, to: &mut UserDst) -> Result {
        let destination = self.destination.lock();
        let Some(Destination {
            sink: Sink::Totals(totals),
            ..
        }) = &*destination
        else {
            return Err(EINVAL);
        };
        let mut text = self.text.lock();
        if to.position() == 0 {
            *text = totals.read()?;
        }
        to.copy_at_position(&text)
    }
}
