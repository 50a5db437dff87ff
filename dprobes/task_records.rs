// SPDX-License-Identifier: GPL-2.0

//! Records of points in user space that wait until the probed instruction is executed.
//!
//! They belong to the task that hit the points, not to a CPU: between its handlers and the end of the instruction the task is in
//! user space, may sleep, and may go on elsewhere. All points of an instruction are called before it, then the hook `uprobe_done`
//! says whether it was executed. That takes all that the task has here. A task that is killed in between, without that hook, takes
//! its records along when it is freed. What a point finds of itself when it is hit is of a hit that was not told of, and goes.
//!
//! Contexts: keeping and taking process, of the task; when a task is freed, any that is not an NMI. Locks: a list's spin lock, with
//! interrupts off; innermost.
#![deny(unsafe_code)]

use ferro_core::rpn::Target;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::sync::shared_word::Word;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::SpinLock;

/// Lists, over which tasks are spread.
const LISTS: usize = 64;

/// Bits of a task's address that are the same for all tasks, nearly.
const SAME_BITS: u32 = 6;

/// A record that waits.
pub(crate) struct Waiting {
    /// The address of the task.
    task: usize,
    /// The number of the point.
    owner: usize,
    /// Where the instruction is.
    pub(crate) address: usize,
    /// Where the record goes.
    pub(crate) target: Target,
    pub(crate) record: KVec<u8>,
}

/// The records that wait, of all tasks.
#[pin_data]
pub(crate) struct InTask {
    /// How many there are.
    count: Word,
    #[pin]
    lists: [SpinLock<KVec<Waiting>>; LISTS],
}

impl InTask {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: Word::new(0),
            lists <- pin_init::pin_init_array_from_fn(|_| new_spinlock!(KVec::new())),
        })
    }

    /// Does something with the list that has a task's records.
    fn with<T>(&self, task: usize, f: impl FnOnce(&mut KVec<Waiting>) -> T) -> Option<T> {
        let list = self.lists.get((task >> SAME_BITS) % LISTS)?;
        Some(with_irqs_off(|_| f(&mut list.lock())))
    }

    /// Keeps a record of the current task, of `len` bytes, which `fill` gets. False if there is no memory for it.
    pub(crate) fn keep(
        &self,
        (task, owner, address): (usize, usize, usize),
        target: Target,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        // Preemption is off, and whoever is probed may hold what waiting for memory takes.
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        let mut record = KVec::new();
        if record.resize(len, 0, flags).is_err() {
            return false;
        }
        fill(&mut record);
        let waiting = Waiting {
            task,
            owner,
            address,
            target,
            record,
        };
        let kept = self.with(task, |list| list.push(waiting, flags));
        let is_kept = matches!(kept, Some(Ok(())));
        if is_kept {
            self.count.add(1);
        }
        is_kept
    }

    /// Takes the first record of a task that `is_wanted`.
    fn take_if(&self, task: usize, is_wanted: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        // The task's own are seen by the task, wherever it runs now.
        if self.count.load() == 0 {
            return None;
        }
        let taken = self.with(task, |list| {
            let found = list
                .iter()
                .position(|one| one.task == task && is_wanted(one));
            found.and_then(|index| list.remove(index).ok())
        });
        let taken = taken.flatten();
        if taken.is_some() {
            self.count.add(usize::MAX);
        }
        taken
    }

    /// Takes a record of a task, the first that it left first.
    pub(crate) fn take(&self, task: usize) -> Option<Waiting> {
        self.take_if(task, |_| true)
    }

    /// Takes the record of a point.
    pub(crate) fn take_of(&self, task: usize, owner: usize) -> Option<Waiting> {
        self.take_if(task, |one| one.owner == owner)
    }

    /// Forgets the records of a task.
    pub(crate) fn forget(&self, task: usize) {
        while self.take(task).is_some() {}
    }
}
