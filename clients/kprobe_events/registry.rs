// SPDX-License-Identifier: GPL-2.0

//! Registry of probes, and the commands that add and remove them.
//!
//! Contexts: process. Locks: the registry's mutex, then the engine's locks.
#![deny(unsafe_code)]

use core::cmp::Ordering;
use core::iter::Peekable;

use ferro_fast_relay::Channel;
use ferro_kprobe::ProbeError;
use ferro_kprobe_events_core::numbers::next_free;
use ferro_kprobe_events_core::probe_args::Args;
use ferro_kprobe_events_core::probe_command::lines;
use ferro_kprobe_events_core::probe_command::Command;
use ferro_kprobe_events_core::probe_command::Kind;
use ferro_sys::fs::text_buffer::TextBuffer;
use ferro_sys::trace::lockdown;
use kernel::fmt;
use kernel::fmt::Write;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::Entry as RBTreeEntry;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::str::CString;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use crate::fetch::ChainBuffers;
use crate::fetch::Fetch;
use crate::format;
use crate::probe::Live;
use crate::probe::Output;
use crate::probe::Request;
use crate::probe::Sink;
use crate::totals::Totals;

/// Maximum length of a line in bytes.
const LINE_MAX: usize = 4096;

/// Maximum number of probes that are prepared and registered at once.
const AT_ONCE: usize = 256;

/// Registered probe, as user space named it.
struct NamedProbe {
    name: Name,
    symbol: CString,
    offset: u32,
    /// Arguments and conditions, as user space gave them.
    args: CString,
    live: Live,
}

/// Probe to add, as parsed from a line.
struct NewProbe<'a> {
    kind: Kind,
    name: &'a str,
    symbol: &'a str,
    offset: u32,
    args: Args<'a>,
}

/// Fields of a [`NamedProbe`] before the probe is registered, and a tree node for it. The name and
/// the number are claimed.
struct Claimed {
    number: u16,
    name: Name,
    symbol: CString,
    offset: u32,
    args: CString,
    room: RBTreeNodeReservation<u16, NamedProbe>,
}

/// Name of a probe, ordered by its bytes.
struct Name(CString);

impl Name {
    /// Copies a name. Errors: -ENOMEM.
    fn new(name: &str) -> Result<Self> {
        Ok(Self(CString::try_from_fmt(fmt!("{name}"))?))
    }

    fn text(&self) -> &CStr {
        &self.0
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.to_bytes().cmp(other.0.to_bytes())
    }
}

#[derive(Default)]
struct State {
    /// Last claimed number.
    last: u16,
    /// Numbers of the probes by name. Includes probes that are being added.
    names: RBTree<Name, u16>,
    /// Probes by number. This is the order of additions, until the numbers wrap.
    entries: RBTree<u16, NamedProbe>,
    /// Buffers for stacks, allocated for the first probe with a stack.
    buffers: Option<Arc<ChainBuffers>>,
}

/// Registered probes. Dropping this unregisters them.
#[pin_data]
pub(crate) struct Probes {
    #[pin]
    state: Mutex<State>,
    channel: Arc<Channel>,
}

impl State {
    /// Claims a name, and the next free number, which is not 0. `start` was the last number before
    /// the current chunk.
    ///
    /// Errors: -EEXIST, -ENOSPC, -ENOMEM.
    fn claim(&mut self, name: Name, start: u16) -> Result<u16> {
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let is_used = |number| self.entries.get(&number).is_some();
        let number = next_free(start, self.last, is_used).ok_or(ENOSPC)?;
        match self.names.entry(name) {
            RBTreeEntry::Occupied(_) => return Err(EEXIST),
            RBTreeEntry::Vacant(free) => free.insert(number, room),
        };
        self.last = number;
        Ok(number)
    }

    /// Adds a probe with a claimed name and number.
    fn add(&mut self, one: Claimed, live: Live) {
        let Claimed {
            number,
            name,
            symbol,
            offset,
            args,
            room,
        } = one;
        let entry = NamedProbe {
            name,
            symbol,
            offset,
            args,
            live,
        };
        self.entries.insert(room.into_node(number, entry));
    }

    /// Removes the probe of this name from the registry. Errors: -ENOENT, -ENOMEM.
    fn take(&mut self, name: &str) -> Result<Live> {
        let number = self.names.remove(&Name::new(name)?).ok_or(ENOENT)?;
        let entry = self.entries.remove(&number).ok_or(ENOENT)?;
        Ok(entry.live)
    }
}

impl Probes {
    pub(crate) fn new(channel: Arc<Channel>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State::default()),
                channel,
            }),
            GFP_KERNEL,
        )
    }

    /// Executes command lines in their order, up to the first that fails. Hits of added probes go
    /// to `sink`. Returns the number of executed bytes of `text`.
    ///
    /// Consecutive additions are registered at once; consecutive removals wait for their handlers
    /// at once.
    ///
    /// Errors, of the first line: -EINVAL for an unknown command, -EEXIST, -ENOENT, -ENOMEM, -EPERM
    /// if lockdown forbids a new probe, and errors of registering.
    pub(crate) fn run(&self, text: &[u8], sink: &Sink) -> Result<usize> {
        let mut done = 0;
        match self.run_lines(text, sink, &mut done) {
            Ok(()) => Ok(text.len()),
            Err(error) if done == 0 => Err(error),
            Err(_) => Ok(done),
        }
    }

    /// Executes the lines for [`Self::run`]. `done` is the number of executed bytes, even on an
    /// error.
    fn run_lines(&self, text: &[u8], sink: &Sink, done: &mut usize) -> Result {
        let mut all = lines(text).peekable();
        all.peek().ok_or(EINVAL)?;
        while all.peek().is_some() {
            let (new, ends) = leading(&mut all, added)?;
            let (count, result) = self.add(&new, sink);
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

    /// Returns the destination of hits that need a record each.
    pub(crate) fn channel(&self) -> Sink {
        Sink::Channel(self.channel.clone())
    }

    fn remove_all(&self) {
        let mut state = self.state.lock();
        state.names = RBTree::new();
        let removed = core::mem::take(&mut state.entries);
        drop(state);
        drop_all(removed);
    }

    /// Removes the probes with hits that are added to these tables.
    pub(crate) fn remove_of(&self, totals: &Arc<Totals>) {
        let mut removed = RBTree::new();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut next = state.entries.cursor_front_mut();
        while let Some(cursor) = next {
            let (_, entry) = cursor.current();
            if !entry.live.is_of(totals) {
                next = cursor.move_next();
                continue;
            }
            let _ = state.names.remove(&entry.name);
            let (rest, node) = cursor.remove_current();
            removed.insert(node);
            next = rest;
        }
        drop(guard);
        drop_all(removed);
    }

    /// Removes probes, up to the first that does not exist. Returns the number of removed probes.
    fn remove(&self, names: &[&str]) -> (usize, Result) {
        let mut removed = KVVec::new();
        let mut result = Ok(());
        let mut state = self.state.lock();
        for name in names {
            // Reserve first: otherwise this probe would be dropped with the registry locked.
            result = removed.reserve(1, GFP_KERNEL).map_err(Error::from);
            result = result.and_then(|()| {
                let live = state.take(name)?;
                Ok(removed.push(live, GFP_KERNEL)?)
            });
            if result.is_err() {
                break;
            }
        }
        drop(state);
        let count = removed.len();
        // Waits for the handlers without the lock, so other tasks need not wait.
        Live::drop_all(removed.into_iter());
        (count, result)
    }

    /// Adds probes, up to the first that fails. Returns the number of added probes, and the error.
    fn add(&self, all: &[NewProbe<'_>], sink: &Sink) -> (usize, Result) {
        if all.is_empty() {
            return (0, Ok(()));
        }
        // The file may have been opened before lockdown.
        if lockdown::forbids_probes() {
            return (0, Err(EPERM));
        }
        let mut state = self.state.lock();
        let mut count = 0;
        // In chunks: preparing the probes after a refused one is wasted.
        for some in all.chunks(AT_ONCE) {
            if let Err(error) = self.add_to(&mut state, some, sink, &mut count) {
                return (count, Err(error));
            }
        }
        (count, Ok(()))
    }

    /// Adds one chunk and counts its probes in `count`.
    fn add_to(
        &self,
        state: &mut State,
        some: &[NewProbe<'_>],
        sink: &Sink,
        count: &mut usize,
    ) -> Result {
        // Reserve first: a claimed name is then either added or removed again.
        let mut claimed = KVVec::with_capacity(some.len(), GFP_KERNEL)?;
        let mut prepared = KVVec::with_capacity(some.len(), GFP_KERNEL)?;
        let mut requests = KVVec::with_capacity(some.len(), GFP_KERNEL)?;
        let mut result = Ok(());
        let start = state.last;
        for new in some {
            let one = self.prepare(state, new, sink, start);
            let pushed = one.and_then(|(one, fetch, output)| {
                claimed.push_within_capacity(one).map_err(|_| ENOMEM)?;
                let rest = (new.kind, fetch, output);
                prepared.push_within_capacity(rest).map_err(|_| ENOMEM)
            });
            if let Err(error) = pushed {
                result = Err(error);
                break;
            }
        }
        for (one, (kind, fetch, output)) in claimed.iter().zip(prepared) {
            let request = Request {
                kind,
                symbol: &one.symbol,
                offset: one.offset,
                fetch,
                output,
            };
            // There is room.
            let _ = requests.push_within_capacity(request);
        }
        let (registered, refusal) = match Live::register_all(requests) {
            Ok((registered, refusal)) => (registered, refusal.map(errno)),
            Err(error) => (KVVec::new(), Some(errno(error))),
        };
        let mut registered = registered.into_iter();
        for one in claimed {
            match registered.next() {
                Some(live) => {
                    state.add(one, live);
                    *count = count.saturating_add(1);
                }
                None => drop(state.names.remove(&one.name)),
            }
        }
        refusal.map_or(result, Err)
    }

    /// Prepares a probe for registration and claims its name; `start` as for [`State::claim`].
    fn prepare(
        &self,
        state: &mut State,
        new: &NewProbe<'_>,
        sink: &Sink,
        start: u16,
    ) -> Result<(Claimed, Fetch, Output)> {
        let args = new.args;
        let buffers = || match &state.buffers {
            Some(buffers) => Ok(buffers.clone()),
            None => Ok(state
                .buffers
                .insert(Arc::new(ChainBuffers::new()?, GFP_KERNEL)?)
                .clone()),
        };
        let fetch = match sink {
            Sink::Channel(_) => Fetch::new(args, buffers)?,
            Sink::Totals(totals) => Fetch::for_table(args, totals, buffers)?,
        };
        let symbol = CString::try_from_fmt(fmt!("{}", new.symbol))?;
        let text = match args.conditions_text() {
            "" => CString::try_from_fmt(fmt!("{}", args.text()))?,
            conditions => CString::try_from_fmt(fmt!("{} if {conditions}", args.text()))?,
        };
        let (name, room) = (
            Name::new(new.name)?,
            RBTreeNodeReservation::new(GFP_KERNEL)?,
        );
        let number = state.claim(Name::new(new.name)?, start)?;
        let claimed = Claimed {
            number,
            name,
            symbol,
            offset: new.offset,
            args: text,
            room,
        };
        Ok((claimed, fetch, Output::new(number, sink.clone())))
    }

    /// Returns a line for each probe. New keys may be added at the ends of lines.
    pub(crate) fn list(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        for entry in self.state.lock().entries.values() {
            entry.write(&mut text).map_err(|_| ENOMEM)?;
        }
        Ok(text.into_bytes())
    }

    /// Returns the description of the records.
    pub(crate) fn format(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        format::write_plain(&mut text).map_err(|_| ENOMEM)?;
        for entry in self.state.lock().entries.values() {
            entry.describe(&mut text).map_err(|_| ENOMEM)?;
        }
        Ok(text.into_bytes())
    }

    /// Returns the number of lost records as text.
    pub(crate) fn lost(&self) -> Result<KVVec<u8>> {
        let mut text = TextBuffer::new();
        let lost = self.channel.lost();
        text.write_fmt(fmt!("{lost}\n")).map_err(|_| ENOMEM)?;
        Ok(text.into_bytes())
    }
}

/// Drops probes. Waits for the handlers: the registry must not be locked.
fn drop_all(mut removed: RBTree<u16, NamedProbe>) {
    Live::drop_all(core::iter::from_fn(|| {
        let (_, node) = removed.cursor_front_mut()?.remove_current();
        Some(node.to_key_value().1.live)
    }));
}

/// Takes lines as long as `of` converts them: up to the first [`None`]. Returns the results, and
/// the end offset of each line.
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

/// Returns the end offset of the last of `count` lines.
fn end_of(ends: &[usize], count: usize) -> Option<usize> {
    ends.get(count.checked_sub(1)?).copied()
}

/// Returns the name of the probe that a line removes, if any.
fn removed(line: &[u8]) -> Option<&str> {
    match Command::parse(line)? {
        Command::Remove(name) => Some(name),
        Command::Add { .. } | Command::RemoveAll => None,
    }
}

/// Returns the probe that a line adds, if any.
fn added(line: &[u8]) -> Option<NewProbe<'_>> {
    match Command::parse(line).filter(|_| line.len() <= LINE_MAX)? {
        Command::Add {
            kind,
            name,
            symbol,
            offset,
            args,
        } => Some(NewProbe {
            kind,
            name,
            symbol,
            offset,
            args,
        }),
        Command::Remove(_) | Command::RemoveAll => None,
    }
}

/// Converts an error; user space does not know -EPROBE_DEFER.
fn errno(error: ProbeError) -> Error {
    match error {
        ProbeError::NoEngine => ENODEV,
        other => other.into(),
    }
}

impl NamedProbe {
    /// Describes its records.
    fn describe(&self, text: &mut TextBuffer) -> fmt::Result {
        format::write(self.name.text(), self.live.number(), self.args(), text)
    }

    fn args(&self) -> Args<'_> {
        let text = self.args.to_str().unwrap_or_default();
        // The text was parsed before the probe was made.
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
        let state = match live.is_loaded() {
            true => "on",
            false => "gone",
        };
        text.write_fmt(fmt!(
            "id={id} name={} kind={kind} place={}",
            name.text(),
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

/// Writes a key with words, separated by commas, unless there are no words.
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
