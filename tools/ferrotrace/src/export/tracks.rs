// SPDX-License-Identifier: GPL-2.0

//! What a record is on a timeline.
//!
//! A record `sched_switch` with the fields `prev_pid`, `next_pid` and `next_comm` ends what its CPU was running and
//! begins another slice on the CPU's track; the idle task, pid 0, is no slice. A record with the fields `pid` and
//! `duration`, in nanoseconds and not 0, is a slice on the track of that thread, which ends at the record's time: the
//! return of a probed function. All others are instants on the track of their CPU.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;

use crate::merge::field::Field;
use crate::merge::field::Kind;
use crate::merge::field::signed;
use crate::merge::field::unsigned;
use crate::merge::format::Format;
use crate::merge::source::Event;
use crate::merge::value::text;

/// Where something is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A CPU's.
    Cpu(u32),
    /// A thread's.
    Thread(i64),
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::Thread(thread) => write!(f, "thread {thread}"),
        }
    }
}

/// From when to when, in nanoseconds of the clock of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A moment.
    Instant(u64),
    /// From one time to another.
    Slice(u64, u64),
}

/// Something to draw.
#[derive(Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Where.
    pub track: Track,
    /// When.
    pub span: Span,
    /// Its name.
    pub name: &'a str,
    /// True if the record's own fields, not those of an ended slice, belong to the item.
    pub has_fields: bool,
}

/// Thread that a CPU runs, and its start time.
#[derive(Debug)]
struct Running {
    since: u64,
    name: String,
}

/// The state of all CPUs.
#[derive(Debug, Default)]
pub struct Tracks {
    running: BTreeMap<u32, Running>,
}

fn field<'a>(format: &'a Format, name: &str) -> Option<&'a Field> {
    format.fields.iter().find(|field| field.name == name)
}

fn number(event: &Event, format: &Format, name: &str) -> Option<i64> {
    let field = field(format, name)?;
    let bytes = field.bytes(&event.bytes);
    match field.kind {
        Kind::Signed => signed(bytes),
        Kind::Unsigned => i64::try_from(unsigned(bytes)?).ok(),
        _ => None,
    }
}

impl Tracks {
    /// Takes the next record, and calls `draw` with what is known by it.
    pub fn add<E>(
        &mut self,
        event: &Event,
        format: &Format,
        mut draw: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some((pid, comm)) = switch(event, format) {
            self.end(event.cpu, event.time, &mut draw)?;
            if pid != 0 {
                let since = event.time;
                let name = format!("{comm}-{pid}");
                self.running.insert(event.cpu, Running { since, name });
            }
            return Ok(());
        }
        let call = number(event, format, "pid").zip(number(event, format, "duration"));
        let call = call.and_then(|(pid, duration)| Some((pid, u64::try_from(duration).ok()?)));
        let (track, span) = match call {
            Some((pid, duration)) if duration > 0 => {
                let begin = event.time.saturating_sub(duration);
                (Track::Thread(pid), Span::Slice(begin, event.time))
            }
            _ => (Track::Cpu(event.cpu), Span::Instant(event.time)),
        };
        draw(Item {
            track,
            span,
            name: &format.name,
            has_fields: true,
        })
    }

    fn end<E>(
        &mut self,
        cpu: u32,
        at: u64,
        draw: &mut impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(Running { since, name }) = self.running.remove(&cpu) else {
            return Ok(());
        };
        draw(Item {
            track: Track::Cpu(cpu),
            // A record that is shown late ends nothing before it began.
            span: Span::Slice(since, at.max(since)),
            name: &name,
            has_fields: false,
        })
    }

    /// The slices that no record has ended: until `at`.
    pub fn finish<E>(
        &mut self,
        at: u64,
        mut draw: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let cpus: Vec<_> = self.running.keys().copied().collect();
        for cpu in cpus {
            self.end(cpu, at, &mut draw)?;
        }
        Ok(())
    }
}

/// The thread that runs from now on, if this is a switch.
fn switch(event: &Event, format: &Format) -> Option<(i64, String)> {
    if format.name != "sched_switch" {
        return None;
    }
    number(event, format, "prev_pid")?;
    let comm = field(format, "next_comm").filter(|field| field.kind == Kind::Text)?;
    let comm = text(comm.bytes(&event.bytes)).into_owned();
    Some((number(event, format, "next_pid")?, comm))
}
