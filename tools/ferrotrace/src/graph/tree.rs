// SPDX-License-Identifier: GPL-2.0

//! The calls of each thread as trees, from records in the order of their times.
//!
//! A tree is passed on when its outermost call returns. Records may be missing anywhere. The number
//! of calls around a call, which both of its records have, tells which open calls have ended
//! without a record.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::collections::HashMap;

use super::event::Arguments;
use super::event::Event;
use super::event::What;

/// Calls that a tree has at most; the rest is counted.
const CALLS: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Return values that wait for the exit record next to them: of a function, and of interrupts in
/// between.
const WAITING: usize = 8;

/// Losses that are remembered.
const LOSSES: usize = 64;

/// End of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The call has returned.
    Returned,
    /// The record of its return is missing.
    Lost,
    /// The call had not returned when the recording ended.
    #[default]
    Open,
}

/// Call of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Address at which ftrace traces the function.
    pub func: u64,
    /// Time of the entry in ns.
    pub begin: u64,
    /// Time between entry and return in ns, if the call has returned.
    pub duration: Option<u64>,
    /// Return value, if it was recorded.
    pub value: Option<u64>,
    /// Arguments, if they were recorded and one of them may be an error.
    pub arguments: Option<Box<Arguments>>,
    /// End of the call.
    pub end: End,
    /// True if the record of the entry is missing.
    pub entry_lost: bool,
    /// True if records within the call are missing.
    pub has_gap: bool,
    /// True if the call is part of an interrupt.
    pub in_irq: bool,
    /// Number of calls within this one that were shorter than the minimum.
    pub folded: u64,
    /// Sum of their durations in ns.
    pub folded_ns: u64,
    /// Calls within this one.
    pub children: Vec<Call>,
}

impl Call {
    /// Returns the number of calls in the tree.
    pub fn size(&self) -> u64 {
        let inner: u64 = self.children.iter().map(Call::size).sum();
        inner + 1
    }
}

/// Part of a thread's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Outermost call of a tree.
    Call(Call),
    /// A system call begins.
    SyscallEntry {
        /// Number.
        number: i64,
        /// First argument.
        first: u64,
    },
    /// Path that is an argument of the system call.
    Path(String),
    /// A system call ends.
    SyscallExit {
        /// Value that the program gets.
        value: i64,
    },
    /// The thread has got another name, as on exec.
    Name,
}

/// An item with its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Thread.
    pub pid: i32,
    /// Name of the thread.
    pub comm: String,
    /// CPU of the last record.
    pub cpu: u32,
    /// Time of the last record in ns.
    pub time: u64,
    /// Content.
    pub item: Item,
}

/// Calls that trees contain.
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// Outermost functions of the trees; all if none are named.
    pub roots: Option<BTreeSet<u64>>,
    /// Levels of a tree.
    pub depth: Option<usize>,
    /// Shorter calls are folded, in ns.
    pub min: u64,
    /// True if return values have records of their own, before or after that of the exit.
    pub probed: bool,
}

/// Number of calls that trees do not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls shorter than the minimum.
    pub folded: u64,
    /// Calls beyond the size of a tree.
    pub left_out: u64,
    /// Calls whose record of the entry or of the return is missing.
    pub cut: u64,
}

/// An open call.
#[derive(Debug)]
struct Open {
    call: Call,
    /// Number of traced calls around it.
    depth: i64,
    /// Level in the tree, from 0; `None` outside of any tree.
    level: Option<usize>,
}

/// A thread that has been seen.
#[derive(Debug, Default)]
struct Thread {
    comm: String,
    open: Vec<Open>,
    /// The last call that has returned. Its return value may follow.
    closed: Option<Open>,
    /// Return values that precede their exit records.
    values: Vec<(u64, u64)>,
    /// Calls in the tree.
    size: usize,
    /// CPU and time of the last record.
    last: (u32, u64),
}

/// Builds trees from records.
pub struct Builder<F> {
    select: Select,
    /// Returns the name of a thread that existed before the recording.
    comm_of: F,
    threads: HashMap<(i32, u32), Thread>,
    /// Times between which records are missing.
    losses: Vec<(u64, u64)>,
    counts: Counts,
}

impl<F: Fn(i32) -> String> Builder<F> {
    /// Makes a builder.
    pub fn new(select: Select, comm_of: F) -> Self {
        Self {
            select,
            comm_of,
            threads: HashMap::new(),
            losses: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the number of calls so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds a record. Passes on what it completes.
    pub fn add(&mut self, event: Event, to: &mut impl FnMut(Entry)) {
        // Each CPU has an idle thread, and all of them have the number 0.
        let idle = if event.pid == 0 { event.cpu } else { 0 };
        let key = (event.pid, idle);
        if let What::Lost { from } = event.what {
            if self.losses.len() == LOSSES {
                self.losses.remove(0);
            }
            self.losses.push((from, event.time));
            return;
        }
        if let What::Fork { pid, comm } = event.what {
            let new = Thread {
                comm,
                ..Thread::default()
            };
            // A thread that has exited had the same number.
            if let Some(old) = self.threads.insert((pid, 0), new) {
                self.end(pid, old, to);
            }
            return;
        }
        let comm_of = &self.comm_of;
        let thread = self.threads.entry(key).or_insert_with(|| Thread {
            comm: comm_of(event.pid),
            ..Thread::default()
        });
        thread.last = (event.cpu, event.time);
        let mut turn = Turn {
            select: &self.select,
            losses: &self.losses,
            counts: &mut self.counts,
            pid: event.pid,
            thread,
            to,
        };
        match event.what {
            What::Entry {
                func,
                depth,
                arguments,
            } => turn.enter(func, depth, arguments, event.in_irq),
            What::Exit {
                func,
                depth,
                duration,
                value,
            } => turn.exit(func, depth, duration, value, event.in_irq),
            What::Returned { func, value } => turn.returned(func, value),
            What::SyscallEntry { number, first } => {
                turn.pass(Item::SyscallEntry { number, first });
            }
            What::SyscallExit { value } => turn.pass(Item::SyscallExit { value }),
            What::Path(path) => turn.pass(Item::Path(path)),
            What::Name(comm) => {
                // The call before had the old name.
                turn.flush();
                turn.thread.comm = comm;
                turn.pass(Item::Name);
            }
            What::Fork { .. } | What::Lost { .. } => (),
        }
    }

    /// Passes on the calls that have not returned.
    pub fn finish(&mut self, to: &mut impl FnMut(Entry)) {
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        threads.sort_by_key(|(key, _)| *key);
        for ((pid, _), thread) in threads {
            self.end(pid, thread, to);
        }
    }

    /// Passes on the calls of a thread that have not returned.
    fn end(&mut self, pid: i32, mut thread: Thread, to: &mut impl FnMut(Entry)) {
        let mut turn = Turn {
            select: &self.select,
            losses: &self.losses,
            counts: &mut self.counts,
            pid,
            thread: &mut thread,
            to,
        };
        turn.flush();
        while let Some(open) = turn.thread.open.pop() {
            turn.attach(open);
        }
    }
}

/// A thread of which a record is added.
struct Turn<'a, T> {
    select: &'a Select,
    losses: &'a [(u64, u64)],
    counts: &'a mut Counts,
    pid: i32,
    thread: &'a mut Thread,
    to: &'a mut T,
}

impl<T: FnMut(Entry)> Turn<'_, T> {
    fn send(&mut self, item: Item) {
        let (cpu, time) = self.thread.last;
        (self.to)(Entry {
            pid: self.pid,
            comm: self.thread.comm.clone(),
            cpu,
            time,
            item,
        });
    }

    fn pass(&mut self, item: Item) {
        // A call without calls around it belongs before the item. Around a path there are calls.
        if self.thread.open.is_empty() {
            self.flush();
        }
        self.send(item);
    }

    /// Puts the last call that has returned in its place.
    fn flush(&mut self) {
        if let Some(closed) = self.thread.closed.take() {
            self.attach(closed);
        }
    }

    /// Puts a call that has ended into the call around it, or passes it on.
    fn attach(&mut self, mut done: Open) {
        let Some(level) = done.level else {
            return;
        };
        self.counts.cut += u64::from(done.call.entry_lost || done.call.end == End::Lost);
        if self.select.depth.is_some_and(|depth| level >= depth) {
            return;
        }
        let parent = self.thread.open.last_mut().filter(|_| level > 0);
        let parent = parent.filter(|open| open.level.is_some());
        let short = done.call.duration.filter(|ns| *ns < self.select.min);
        if let Some(ns) = short {
            self.counts.folded += 1;
            if let Some(parent) = parent {
                parent.call.folded += 1;
                parent.call.folded_ns = parent.call.folded_ns.saturating_add(ns);
            }
            return;
        }
        // A call with calls in the tree stays around them.
        let is_full = self.thread.size >= CALLS && done.call.children.is_empty();
        match parent {
            Some(_) if is_full => self.counts.left_out += 1,
            Some(parent) => {
                self.thread.size += 1;
                done.call.children.shrink_to_fit();
                parent.call.children.push(done.call);
            }
            None => {
                self.thread.size = 0;
                self.send(Item::Call(done.call));
            }
        }
    }

    /// Ends the open calls that are not around a call with so many calls around it.
    fn cut(&mut self, depth: i64) {
        while let Some(open) = self.thread.open.pop_if(|open| open.depth >= depth) {
            self.attach(lost(open));
        }
    }

    /// Returns the level of a call of this function.
    fn level(&self, func: u64) -> Option<usize> {
        let around = self.thread.open.last().and_then(|open| open.level);
        let is_root = || {
            let roots = self.select.roots.as_ref();
            roots.is_none_or(|roots| roots.contains(&func))
        };
        around
            .map(|level| level + 1)
            .or_else(|| is_root().then_some(0))
    }

    fn enter(&mut self, func: u64, depth: i64, arguments: Option<Box<Arguments>>, in_irq: bool) {
        self.flush();
        self.cut(depth);
        let call = Call {
            func,
            begin: self.thread.last.1,
            arguments,
            in_irq,
            ..Call::default()
        };
        let level = self.level(func);
        self.thread.open.push(Open { call, depth, level });
    }

    fn exit(&mut self, func: u64, depth: i64, duration: u64, value: Option<u64>, in_irq: bool) {
        self.flush();
        let (_, now) = self.thread.last;
        let begin = now.saturating_sub(duration);
        let value = value.or_else(|| self.take_value(func));
        // An open call of the same function may be an earlier one: its return and the entry of this
        // one are missing.
        let is_it = |open: &Open| {
            let since = open.call.begin;
            let mut losses = self.losses.iter();
            open.depth == depth
                && open.call.func == func
                && !losses.any(|(from, _)| *from >= since && *from <= begin)
        };
        let found = self.thread.open.iter().rposition(is_it);
        let Some(index) = found else {
            self.cut(depth);
            let mut call = Call {
                func,
                begin,
                duration: Some(duration),
                value,
                end: End::Returned,
                entry_lost: true,
                has_gap: true,
                in_irq,
                ..Call::default()
            };
            let level = self.level(func);
            if let Some(around) = self.thread.open.last_mut() {
                let inner = &mut around.call.children;
                let first = inner.partition_point(|inner| inner.begin < begin);
                call.children = inner.split_off(first);
            }
            self.close(Open { call, depth, level });
            return;
        };
        while self.thread.open.len() > index + 1 {
            if let Some(open) = self.thread.open.pop() {
                self.attach(lost(open));
            }
        }
        if let Some(mut open) = self.thread.open.pop() {
            let since = open.call.begin;
            let mut losses = self.losses.iter();
            open.call.duration = Some(duration);
            open.call.value = value;
            open.call.end = End::Returned;
            open.call.has_gap |= losses.any(|(from, to)| *from < now && *to > since);
            self.close(open);
        }
    }

    /// Puts a call that has returned in its place, unless its return value may follow.
    fn close(&mut self, open: Open) {
        match self.select.probed && open.call.value.is_none() {
            true => self.thread.closed = Some(open),
            false => self.attach(open),
        }
    }

    /// Takes the return value that came before the exit record of a function.
    fn take_value(&mut self, func: u64) -> Option<u64> {
        let values = &mut self.thread.values;
        let index = values.iter().rposition(|(of, _)| *of == func)?;
        let value = values.get(index).map(|(_, value)| *value);
        values.truncate(index);
        value
    }

    fn returned(&mut self, func: u64, value: u64) {
        let closed = self.thread.closed.as_mut();
        let closed = closed.filter(|open| open.call.func == func && open.call.value.is_none());
        if let Some(open) = closed {
            open.call.value = Some(value);
            return;
        }
        if self.thread.values.len() == WAITING {
            self.thread.values.remove(0);
        }
        self.thread.values.push((func, value));
    }
}

/// Marks a call without a record of its return.
fn lost(mut open: Open) -> Open {
    open.call.end = End::Lost;
    open.call.has_gap = true;
    open
}

#[cfg(test)]
mod tests;
