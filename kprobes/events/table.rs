// SPDX-License-Identifier: GPL-2.0

//! The probes that there are, and the files: `probes`, by which they come and go, `format`, which describes their records,
//! and `lost`.
//!
//! Contexts: process. Locks: the table's mutex, then those of the engine.
#![deny(unsafe_code)]

use core::iter::Peekable;

use ferro_core::probe_args::Args;
use ferro_core::probe_command::lines;
use ferro_core::probe_command::Command;
use ferro_core::probe_command::Kind;
use ferro_fast_relay::Channel;
use ferro_kprobe::ProbeError;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::fs::user::UserDst;
use ferro_sys::fs::user::UserSrc;
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
use crate::probe::Request;
use crate::reading::Reading;
use crate::reading::Rooms;
use crate::KprobeEvents;

/// The most bytes of a line.
const LINE_MAX: usize = 4096;

/// The most bytes of a write.
const WRITE_MAX: usize = 1 << 16;

pub(crate) struct Entry {
    pub(crate) name: CString,
    symbol: CString,
    offset: u32,
    /// Arguments and conditions, as they were given.
    args: CString,
    pub(crate) live: Live,
}

/// A probe that is to be added.
struct New<'a> {
    kind: Kind,
    name: &'a str,
    symbol: &'a str,
    offset: u32,
    args: Args<'a>,
}

/// What an [`Entry`] has besides the probe.
struct Told {
    name: CString,
    symbol: CString,
    offset: u32,
    args: CString,
}

#[derive(Default)]
struct Table {
    /// The number that the last probe got.
    last: u16,
    entries: KVVec<Entry>,
    /// For stacks, once a probe has wanted some.
    rooms: Option<Arc<Rooms>>,
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
    fn number(&mut self) -> Option<u16> {
        let is_free = |number: &u16| {
            let mut entries = self.entries.iter();
            *number != 0 && entries.all(|entry| entry.live.number() != *number)
        };
        // More of them than there are probes, and 0.
        let tries = u16::try_from(self.entries.len()).ok()?.checked_add(2)?;
        let mut numbers = (1..=tries).map(|n| self.last.wrapping_add(n));
        self.last = numbers.find(is_free)?;
        Some(self.last)
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

    /// Does what the lines say, in their order, up to the first that fails. Returns how many bytes of `text` that takes. Probes that
    /// are added one after another are registered at once, and those that are removed wait for their handlers at once.
    ///
    /// Errors, of the first line: -EINVAL if it is no command, -EEXIST, -ENOENT, -ENOMEM, -EPERM if lockdown forbids a new probe, and
    /// those of registering.
    fn run(&self, text: &[u8]) -> Result<usize> {
        let mut done = 0;
        match self.run_lines(text, &mut done) {
            Ok(()) => Ok(text.len()),
            Err(error) if done == 0 => Err(error),
            Err(_) => Ok(done),
        }
    }

    /// The same; `done` is what has been done also if it fails.
    fn run_lines(&self, text: &[u8], done: &mut usize) -> Result {
        let mut all = lines(text).peekable();
        all.peek().ok_or(EINVAL)?;
        while all.peek().is_some() {
            let (new, ends) = leading(&mut all, added)?;
            let (count, result) = self.add(&new);
            *done = end_of(&ends, count).unwrap_or(*done);
            result?;
            let (names, ends) = leading(&mut all, removed)?;
            let (count, result) = self.remove(&names);
            *done = end_of(&ends, count).unwrap_or(*done);
            result?;
            let is_other = |line: &[u8]| added(line).is_none() && removed(line).is_none();
            if let Some((line, end)) = all.next_if(|(line, _)| is_other(line)) {
                match Command::parse(line) {
                    Some(Command::RemoveAll) => self.remove_all(),
                    _ => return Err(EINVAL),
                }
                *done = end;
            }
        }
        Ok(())
    }

    fn remove_all(&self) {
        let removed = core::mem::take(&mut self.table.lock().entries);
        // Waits for the handlers, which nobody else has to.
        Live::drop_all(removed.into_iter().map(|entry| entry.live));
    }

    /// Removes probes, up to the first that is not there. Returns how many.
    fn remove(&self, names: &[&str]) -> (usize, Result) {
        let mut removed = KVVec::new();
        let mut result = Ok(());
        let mut table = self.table.lock();
        for name in names {
            let found = table.position(name).ok_or(ENOENT);
            result = found.and_then(|index| {
                // Room first: without it this one would be dropped with the table locked.
                removed.reserve(1, GFP_KERNEL)?;
                Ok(removed.push(table.entries.remove(index)?.live, GFP_KERNEL)?)
            });
            if result.is_err() {
                break;
            }
        }
        drop(table);
        let count = removed.len();
        // Waits for the handlers, which nobody else has to.
        Live::drop_all(removed.into_iter());
        (count, result)
    }

    /// Adds probes, up to the first that fails. Returns how many those before it are, and why it does.
    fn add(&self, all: &[New<'_>]) -> (usize, Result) {
        if all.is_empty() {
            return (0, Ok(()));
        }
        // The file may have been opened before.
        if lockdown::forbids_probes() {
            return (0, Err(EPERM));
        }
        let mut table = self.table.lock();
        let before = table.entries.len();
        let result = self.add_to(&mut table, all);
        (table.entries.len().saturating_sub(before), result)
    }

    fn add_to(&self, table: &mut Table, all: &[New<'_>]) -> Result {
        // Room first: a probe that is there is also in the table.
        table.entries.reserve(all.len(), GFP_KERNEL)?;
        let mut told = KVVec::with_capacity(all.len(), GFP_KERNEL)?;
        let mut prepared = KVVec::with_capacity(all.len(), GFP_KERNEL)?;
        let mut result = Ok(());
        for (index, new) in all.iter().enumerate() {
            let mut earlier = all.iter().take(index);
            let is_taken = earlier.any(|other| other.name == new.name);
            let number = table.entries.len().saturating_add(index).saturating_add(1);
            let one = match is_taken || table.position(new.name).is_some() {
                true => Err(EEXIST),
                // Each has a number of its own, which is not 0.
                false if number >= u16::MAX.into() => Err(ENOSPC),
                false => self.prepare(table, new),
            };
            match one {
                Ok((one, reading, output)) => {
                    told.push(one, GFP_KERNEL)?;
                    prepared.push((new.kind, reading, output), GFP_KERNEL)?;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let mut requests = KVVec::with_capacity(told.len(), GFP_KERNEL)?;
        for (one, (kind, reading, output)) in told.iter().zip(prepared) {
            let request = Request {
                kind,
                symbol: &one.symbol,
                offset: one.offset,
                reading,
                output,
            };
            requests.push(request, GFP_KERNEL)?;
        }
        let (registered, refusal) = Live::register_all(requests).map_err(errno)?;
        for (one, live) in told.into_iter().zip(registered) {
            let Told {
                name,
                symbol,
                offset,
                args,
            } = one;
            let entry = Entry {
                name,
                symbol,
                offset,
                args,
                live,
            };
            table.entries.push(entry, GFP_KERNEL)?;
        }
        match refusal {
            Some(refusal) => Err(errno(refusal)),
            None => result,
        }
    }

    /// Makes what a probe takes before it is registered.
    fn prepare(&self, table: &mut Table, new: &New<'_>) -> Result<(Told, Reading, Output)> {
        let args = new.args;
        let told = Told {
            name: CString::try_from_fmt(fmt!("{}", new.name))?,
            symbol: CString::try_from_fmt(fmt!("{}", new.symbol))?,
            offset: new.offset,
            args: match args.conditions_text() {
                "" => CString::try_from_fmt(fmt!("{}", args.text()))?,
                conditions => CString::try_from_fmt(fmt!("{} if {conditions}", args.text()))?,
            },
        };
        let number = table.number().ok_or(ENOSPC)?;
        let output = Output::new(number, self.channel.clone());
        let rooms = || match &table.rooms {
            Some(rooms) => Ok(rooms.clone()),
            None => Ok(table
                .rooms
                .insert(Arc::new(Rooms::new()?, GFP_KERNEL)?)
                .clone()),
        };
        Ok((told, Reading::new(args, rooms)?, output))
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

/// What `of` makes of the lines up to the first of which it makes nothing, and where each ends.
fn leading<'a, T>(
    all: &mut Peekable<impl Iterator<Item = (&'a [u8], usize)>>,
    of: impl Fn(&'a [u8]) -> Option<T>,
) -> Result<(KVVec<T>, KVVec<usize>)> {
    let (mut made, mut ends) = (KVVec::new(), KVVec::new());
    while let Some((one, end)) = all.peek().and_then(|(line, end)| Some((of(line)?, *end))) {
        all.next();
        made.push(one, GFP_KERNEL)?;
        ends.push(end, GFP_KERNEL)?;
    }
    Ok((made, ends))
}

/// Where the last of so many lines ends.
fn end_of(ends: &[usize], count: usize) -> Option<usize> {
    ends.get(count.checked_sub(1)?).copied()
}

/// The probe that a line removes, if it does.
fn removed(line: &[u8]) -> Option<&str> {
    match Command::parse(line)? {
        Command::Remove(name) => Some(name),
        Command::Add { .. } | Command::RemoveAll => None,
    }
}

/// The probe that a line adds, if it does.
fn added(line: &[u8]) -> Option<New<'_>> {
    match Command::parse(line).filter(|_| line.len() <= LINE_MAX)? {
        Command::Add {
            kind,
            name,
            symbol,
            offset,
            args,
        } => Some(New {
            kind,
            name,
            symbol,
            offset,
            args,
        }),
        Command::Remove(_) | Command::RemoveAll => None,
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
        if self.shows != Shows::Probes || from.len() > WRITE_MAX {
            return Err(EINVAL);
        }
        let mut text = KVVec::new();
        text.resize(from.len(), 0, GFP_KERNEL)?;
        from.bytes(&mut text)?;
        from.take(self.probes.run(&text)?);
        Ok(())
    }
}
