// SPDX-License-Identifier: GPL-2.0

//! Selection of the processes and threads with hits that count.
//!
//! Contexts: [`Selection::has_current`] any, NMI included; the rest process. Locks: hooks' locks.
#![deny(unsafe_code)]

use ferro_gkhi::points::TaskFork;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::cpu::task;
use ferro_sys::cpu::task::Ids;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

/// Number of different threads, `PID_MAX_LIMIT`.
const THREADS_MAX: usize = 4 << 20;

/// Number of names that exits have had.
static NAMES: Word = Word::new(0);

const BITS: usize = usize::BITS as usize;

/// A bit for each thread.
struct Threads(KVVec<Word>);

impl Threads {
    fn new() -> Result<Self> {
        let mut words = KVVec::with_capacity(THREADS_MAX / BITS, GFP_KERNEL)?;
        for _ in 0..THREADS_MAX / BITS {
            // There is room.
            let _ = words.push_within_capacity(Word::new(0));
        }
        Ok(Self(words))
    }

    /// Returns the word and the bit of a thread.
    #[inline(always)]
    fn at(&self, thread: i32) -> Option<(&Word, usize)> {
        let thread = thread as u32 as usize;
        Some((self.0.get(thread / BITS)?, 1 << (thread % BITS)))
    }

    #[inline(always)]
    fn has(&self, thread: i32) -> bool {
        self.at(thread)
            .is_some_and(|(word, bit)| word.load() & bit != 0)
    }

    /// Sets or clears the bit of a new thread, which only the caller changes at this time.
    fn set(&self, thread: i32, is_selected: bool) {
        let Some((word, bit)) = self.at(thread) else {
            return;
        };
        // An addition changes no other bit, as the bit has the other value.
        match (self.has(thread), is_selected) {
            (false, true) => word.add(bit),
            (true, false) => word.add(bit.wrapping_neg()),
            _ => 0,
        };
    }
}

/// Processes that the reader starts, with their descendants.
///
/// A thread is selected or not when it is created, before it runs. So a thread with the number of
/// an earlier one has a right bit, too.
struct Children {
    threads: Arc<Threads>,
    _forks: Registered<TaskFork>,
}

impl Children {
    /// Follows the children of `reader`. The name of its exit begins with `client`.
    fn new(reader: i32, client: &str) -> Result<Self> {
        let threads = Arc::new(Threads::new()?, GFP_KERNEL)?;
        let selected = threads.clone();
        // The exit needs a name of its own.
        let name = CString::try_from_fmt(fmt!("{client}_{}", NAMES.add(1)))?;
        let forks =
            Registered::<TaskFork>::builder(&name).register(move |_call, (task, _flags)| {
                let Ids { thread, process } = task::ids();
                let is_child = process == reader || selected.has(thread);
                selected.set(task.pid(), is_child);
                Answer::Continue
            })?;
        Ok(Self {
            threads,
            _forks: forks,
        })
    }
}

/// Calls to count.
pub(crate) struct Selection {
    /// Process that reads the tables. Its own calls are left out.
    reader: i32,
    /// Numbers of processes and threads.
    pids: KVVec<i32>,
    children: Option<Children>,
}

impl Selection {
    /// Selects these processes and threads and, with `follow`, the later children of `reader`.
    /// Selects all if there are none. `client` is a name for the exit on a hook.
    ///
    /// Errors: -ENOMEM, and errors of registering an exit on a hook.
    pub(crate) fn new(client: &str, reader: i32, pids: &[i32], follow: bool) -> Result<Self> {
        let mut own = KVVec::new();
        own.extend_from_slice(pids, GFP_KERNEL)?;
        Ok(Self {
            reader,
            pids: own,
            children: follow.then(|| Children::new(reader, client)).transpose()?,
        })
    }

    /// Returns true if the hits of the current thread count.
    #[inline(always)]
    pub(crate) fn has_current(&self) -> bool {
        let ids = task::ids();
        if ids.process == self.reader {
            return false;
        }
        match &self.children {
            None => self.pids.is_empty() || self.names(ids),
            Some(children) => children.threads.has(ids.thread) || self.names(ids),
        }
    }

    fn names(&self, ids: Ids) -> bool {
        let mut pids = self.pids.iter();
        pids.any(|pid| *pid == ids.process || *pid == ids.thread)
    }
}
