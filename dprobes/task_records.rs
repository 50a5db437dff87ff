// SPDX-License-Identifier: GPL-2.0

//! Records of points in user space that wait until the probed instruction is executed.
//!
//! A record belongs to the task that hit the point, not to a CPU. Between the handlers and the end
//! of the instruction the task is in user space, may sleep, and may move to another CPU. All points
//! of an instruction are called before it. Then the hook `uprobe_done` reports whether it was
//! executed, and takes all records of the task. A task may be killed before that hook; its records
//! are dropped when the task is freed. A point that finds an old record of its own when hit drops
//! it: that hit was never reported.
//!
//! Contexts: keeping and taking process, of the task; when a task is freed, any except NMI. Locks:
//! a list's spin lock, with interrupts off; innermost.
#![deny(unsafe_code)]

use ferro_dprobes_core::Target;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::sync::shared_word::Word;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::SpinLock;

/// Number of lists that the tasks are spread over.
const LISTS: usize = 64;

/// Low bits of a task's address that are the same for nearly all tasks.
const SAME_BITS: u32 = 6;

/// Pending record of a hit in user space.
pub(crate) struct TaskRecord {
    /// Address of the task.
    task: usize,
    /// Number of the point.
    owner: usize,
    /// Address of the instruction.
    pub(crate) address: usize,
    /// Destination of the record.
    pub(crate) target: Target,
    pub(crate) record: KVec<u8>,
}

/// Pending records of all tasks.
#[pin_data]
pub(crate) struct TaskRecords {
    /// Number of records.
    count: Word,
    #[pin]
    lists: [SpinLock<KVec<TaskRecord>>; LISTS],
}

impl TaskRecords {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: Word::new(0),
            lists <- pin_init::pin_init_array_from_fn(|_| new_spinlock!(KVec::new())),
        })
    }

    /// Calls `f` with the list that has a task's records.
    fn with<T>(&self, task: usize, f: impl FnOnce(&mut KVec<TaskRecord>) -> T) -> Option<T> {
        let list = self.lists.get((task >> SAME_BITS) % LISTS)?;
        Some(with_irqs_off(|_| f(&mut list.lock())))
    }

    /// Keeps a record of `len` bytes of the current task, which `fill` writes. Returns false if
    /// there is no memory for it.
    pub(crate) fn keep(
        &self,
        (task, owner, address): (usize, usize, usize),
        target: Target,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        // No waiting: preemption is off, and the probed code may hold locks of the allocator.
        let flags = GFP_NOWAIT | __GFP_NOWARN;
        let mut record = KVec::new();
        if record.resize(len, 0, flags).is_err() {
            return false;
        }
        fill(&mut record);
        let waiting = TaskRecord {
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
    fn take_if(&self, task: usize, is_wanted: impl Fn(&TaskRecord) -> bool) -> Option<TaskRecord> {
        // A task sees its own stores on any CPU that it runs on.
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

    /// Takes the oldest record of a task.
    pub(crate) fn take(&self, task: usize) -> Option<TaskRecord> {
        self.take_if(task, |_| true)
    }

    /// Takes the record of a point.
    pub(crate) fn take_of(&self, task: usize, owner: usize) -> Option<TaskRecord> {
        self.take_if(task, |one| one.owner == owner)
    }

    /// Drops the records of a task.
    pub(crate) fn drop_all(&self, task: usize) {
        while self.take(task).is_some() {}
    }
}
