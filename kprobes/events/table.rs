// SPDX-License-Identifier: GPL-2.0

//! The probes that there are, and the file `probes`, by which they come and go.
//!
//! Contexts: process. Locks: the table's mutex, then those of the engine.
#![deny(unsafe_code)]

use ferro_core::probe_command::Command;
use ferro_core::probe_command::Kind;
use ferro_core::probe_command::NAME_MAX;
use ferro_core::probe_command::SYMBOL_MAX;
use ferro_kprobe::ProbeError;
use ferro_relay::Channel;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::fops::UserDst;
use ferro_sys::fs::fops::UserSrc;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::sync::counted::Shared;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::probe::Live;
use crate::KprobeEvents;

/// Bytes of a line: a letter, a name, a symbol, an offset, and what is between them.
const LINE_MAX: usize = NAME_MAX + SYMBOL_MAX + 32;

struct Entry {
    id: u32,
    name: CString,
    symbol: CString,
    offset: u32,
    live: Live,
}

#[derive(Default)]
struct Table {
    next_id: u32,
    entries: KVVec<Entry>,
}

/// The probes, unregistered when this is dropped.
#[pin_data]
pub(crate) struct Probes {
    #[pin]
    table: Mutex<Table>,
    channel: Arc<Channel>,
}

impl Table {
    fn position(&self, name: &str) -> Option<usize> {
        let mut entries = self.entries.iter();
        entries.position(|entry| entry.name.to_bytes() == name.as_bytes())
    }
}

impl Probes {
    pub(crate) fn new(channel: Arc<Channel>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(Table::default()),
                channel,
            }),
            GFP_KERNEL,
        )
    }

    /// Does what a line says. If it fails, nothing has changed.
    ///
    /// Errors: -EINVAL if it is no command, -EEXIST, -ENOENT, -ENOMEM, and those of registering.
    fn run(&self, line: &[u8]) -> Result {
        match Command::parse(line).ok_or(EINVAL)? {
            Command::Add {
                kind,
                name,
                symbol,
                offset,
            } => self.add(kind, name, symbol, offset),
            Command::Remove(name) => {
                let mut table = self.table.lock();
                let index = table.position(name).ok_or(ENOENT)?;
                let removed = table.entries.remove(index);
                // Waits for the handlers, which nobody else has to.
                drop(table);
                drop(removed);
                Ok(())
            }
            Command::RemoveAll => {
                let removed = core::mem::take(&mut self.table.lock().entries);
                drop(removed);
                Ok(())
            }
        }
    }

    fn add(&self, kind: Kind, name: &str, symbol: &str, offset: u32) -> Result {
        let mut table = self.table.lock();
        if table.position(name).is_some() {
            return Err(EEXIST);
        }
        let name = CString::try_from_fmt(fmt!("{name}"))?;
        let symbol = CString::try_from_fmt(fmt!("{symbol}"))?;
        // Room first: a probe that is there is also in the table.
        table.entries.reserve(1, GFP_KERNEL)?;
        let id = table.next_id;
        let live = Live::register(kind, &symbol, offset, id, self.channel.clone());
        let entry = Entry {
            id,
            name,
            symbol,
            offset,
            live: live.map_err(errno)?,
        };
        table.next_id = id.wrapping_add(1);
        Ok(table.entries.push(entry, GFP_KERNEL)?)
    }

    /// A line for each probe. Keys may be added at the ends.
    fn list(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        for entry in &self.table.lock().entries {
            entry.write(&mut text).map_err(|_| ENOMEM)?;
        }
        Ok(text.into_bytes())
    }
}

/// User space does not know -EPROBE_DEFER.
fn errno(error: ProbeError) -> Error {
    match error {
        ProbeError::NoEngine => ENODEV,
        other => other.into(),
    }
}

impl Entry {
    fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        let Self {
            id,
            name,
            symbol,
            offset,
            live,
        } = self;
        let kind = match live.kind() {
            Kind::Point => "probe",
            Kind::Return => "return",
        };
        let state = match live.is_there() {
            true => "on",
            false => "gone",
        };
        text.write_fmt(fmt!(
            "id={id} name={} kind={kind} place={}",
            **name,
            **symbol
        ))?;
        if *offset != 0 {
            text.write_fmt(fmt!("+{offset:#x}"))?;
        }
        let (address, hits, missed) = (live.address(), live.hits(), live.missed());
        text.write_fmt(fmt!(
            " address={address:#x} hits={hits} missed={missed} state={state}\n"
        ))
    }
}

/// The file: commands are written to it, and it lists the probes as they were when it was opened.
pub(crate) struct ProbesFile {
    pub(crate) probes: Arc<Probes>,
    pub(crate) listed: KVVec<u8>,
}

pub(crate) static PROBES_FILE: FileTable<Shared<ProbesFile>> =
    FileTable::new(this_module::<KprobeEvents>());

impl NodeOps for ProbesFile {
    fn snapshot(&self) -> Result<Option<Self>> {
        Ok(Some(Self {
            probes: self.probes.clone(),
            listed: self.probes.list()?,
        }))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        to.copy_at_position(&self.listed)
    }

    fn write(&self, from: &UserSrc) -> Result {
        self.probes.run(from.text(&mut [0; LINE_MAX])?)
    }
}
