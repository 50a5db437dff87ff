// SPDX-License-Identifier: GPL-2.0

//! The probes that there are, and the files: `probes`, by which they come and go, `format`, which describes their records,
//! and `lost`.
//!
//! Contexts: process. Locks: the table's mutex, then those of the engine.
#![deny(unsafe_code)]

use ferro_core::probe_args::Args;
use ferro_core::probe_command::Command;
use ferro_core::probe_command::Kind;
use ferro_fast_relay::Channel;
use ferro_kprobe::ProbeError;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::fops::UserDst;
use ferro_sys::fs::fops::UserSrc;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::sync::counted::Shared;
use ferro_sys::trace::lockdown;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::module::this_module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::format;
use crate::probe::Live;
use crate::probe::Output;
use crate::reading::Reading;
use crate::KprobeEvents;

/// The most bytes of a line.
const LINE_MAX: usize = 4096;

pub(crate) struct Entry {
    pub(crate) name: CString,
    symbol: CString,
    offset: u32,
    /// Arguments and conditions, as they were given.
    args: CString,
    pub(crate) live: Live,
}

#[derive(Default)]
struct Table {
    /// The number that the last probe got.
    last: u16,
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

    /// A number that no probe has, and that none has had for as long as possible. It is not 0.
    fn number(&self) -> Option<u16> {
        let is_free = |number: &u16| {
            let mut entries = self.entries.iter();
            *number != 0 && entries.all(|entry| entry.live.number() != *number)
        };
        // More of them than there are probes, and 0.
        let tries = u16::try_from(self.entries.len()).ok()?.checked_add(2)?;
        let mut numbers = (1..=tries).map(|n| self.last.wrapping_add(n));
        numbers.find(is_free)
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
    /// Errors: -EINVAL if it is no command, -EEXIST, -ENOENT, -ENOMEM, -EPERM if lockdown forbids a new probe, and those of
    /// registering.
    fn run(&self, line: &[u8]) -> Result {
        match Command::parse(line).ok_or(EINVAL)? {
            Command::Add {
                kind,
                name,
                symbol,
                offset,
                args,
            } => self.add(kind, name, (symbol, offset), args),
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

    fn add(&self, kind: Kind, name: &str, place: (&str, u32), args: Args<'_>) -> Result {
        // The file may have been opened before.
        if lockdown::forbids_probes() {
            return Err(EPERM);
        }
        let (symbol, offset) = place;
        let mut table = self.table.lock();
        if table.position(name).is_some() {
            return Err(EEXIST);
        }
        let name = CString::try_from_fmt(fmt!("{name}"))?;
        let symbol = CString::try_from_fmt(fmt!("{symbol}"))?;
        // Room first: a probe that is there is also in the table.
        table.entries.reserve(1, GFP_KERNEL)?;
        let number = table.number().ok_or(ENOSPC)?;
        let output = Output::new(number, self.channel.clone());
        let reading = Reading::new(args)?;
        let args = match args.conditions_text() {
            "" => CString::try_from_fmt(fmt!("{}", args.text()))?,
            conditions => CString::try_from_fmt(fmt!("{} if {conditions}", args.text()))?,
        };
        let live = Live::register(kind, &symbol, offset, reading, output);
        let entry = Entry {
            name,
            symbol,
            offset,
            args,
            live: live.map_err(errno)?,
        };
        table.last = number;
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

    /// The description of the records.
    fn format(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        format::write_plain(&mut text).map_err(|_| ENOMEM)?;
        for entry in &self.table.lock().entries {
            format::write(entry, &mut text).map_err(|_| ENOMEM)?;
        }
        Ok(text.into_bytes())
    }

    fn lost(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        let lost = self.channel.lost();
        text.write_fmt(fmt!("{lost}\n")).map_err(|_| ENOMEM)?;
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
    pub(crate) fn args(&self) -> Args<'_> {
        let text = self.args.to_str().unwrap_or_default();
        // It was understood before the probe was made.
        Args::parse(text, self.live.kind() == Kind::Return).unwrap_or_default()
    }

    fn write(&self, text: &mut TextBuffer) -> fmt::Result {
        let Self {
            name,
            symbol,
            offset,
            live,
            ..
        } = self;
        let id = live.number();
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
            " address={address:#x} hits={hits} missed={missed} state={state}"
        ))?;
        let args = self.args();
        list(text, "args", args.text())?;
        list(text, "if", args.conditions_text())?;
        text.write_str("\n")
    }
}

/// A key with words, with commas between, if there are any.
fn list(text: &mut TextBuffer, key: &str, words: &str) -> fmt::Result {
    let words = words.split_ascii_whitespace();
    for (index, word) in words.enumerate() {
        match index {
            0 => text.write_fmt(fmt!(" {key}={word}"))?,
            _ => text.write_fmt(fmt!(",{word}"))?,
        }
    }
    Ok(())
}

/// What a file of ours shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The probes. Commands are written to this file.
    Probes,
    /// The description of the records.
    Format,
    /// How many records found no room.
    Lost,
}

/// A file, which shows what there was when it was opened.
pub(crate) struct ProbesFile {
    shows: Shows,
    probes: Arc<Probes>,
    text: KVVec<u8>,
}

impl ProbesFile {
    pub(crate) fn new(shows: Shows, probes: Arc<Probes>) -> Self {
        Self {
            shows,
            probes,
            text: KVVec::new(),
        }
    }
}

pub(crate) static PROBES_FILE: FileTable<Shared<ProbesFile>> =
    FileTable::new(this_module::<KprobeEvents>());

impl NodeOps for ProbesFile {
    fn snapshot(&self) -> Result<Option<Self>> {
        let probes = self.probes.clone();
        let text = match self.shows {
            Shows::Probes => probes.list()?,
            Shows::Format => probes.format()?,
            Shows::Lost => probes.lost()?,
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
        if self.shows != Shows::Probes || from.len() > LINE_MAX {
            return Err(EINVAL);
        }
        let mut line = KVVec::new();
        line.resize(from.len(), 0, GFP_KERNEL)?;
        self.probes.run(from.text(&mut line)?)
    }
}
