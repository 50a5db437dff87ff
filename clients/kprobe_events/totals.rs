// SPDX-License-Identifier: GPL-2.0

//! Hits added up by keys, in tables of the CPUs: `struct ferrotrace_probe_totals` of
//! `<uapi/linux/ferrotrace_kprobe_events.h>`.
//!
//! Contexts: [`Totals::hit`] any, NMI included, with preemption off; the rest process.
#![deny(unsafe_code)]

use core::mem::offset_of;

use ferro_kprobe_events_core::probe_args::Arg;
use ferro_kprobe_events_core::probe_command::TableCommand;
use ferro_kprobe_events_core::table::Figures;
use ferro_kprobe_events_core::table::Layout;
use ferro_kprobe_events_core::table::Row;
use ferro_kprobe_events_core::table::Sums;
use ferro_kprobe_events_core::table::Words;
use ferro_kprobe_events_core::value::Value;
use ferro_sys::cpu;
use ferro_sys::cpu::task;
use ferro_sys::cpu::words::CpuWords;
use ferro_sys::cpu::CpuId;
use ferro_sys::trace::tracepoint::TaskInfo;
use ferro_sys::trace::tracepoint::COMM_LEN;
use kernel::prelude::*;
use kernel::str::CString;
use zerocopy::FromBytes;
use zerocopy::IntoBytes;
use zerocopy_derive::Immutable;
use zerocopy_derive::IntoBytes;

use crate::record::Area;
use crate::selection::Selection;

/// Maximum number of words of a key before its arguments.
const HEAD_WORDS: usize = 2 + COMM_LEN / 8;

/// Maximum number of bytes of arguments in a key. A hit has the key on its stack.
const ARGS_MAX: usize = 192;

/// Version of the format.
const VERSION: u32 = 1;

/// `struct ferrotrace_probe_totals`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    version: u32,
    rows: u32,
    left_out: u64,
}

/// `struct ferrotrace_probe_total`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct RowHead {
    cpu: u32,
    words: u16,
    classes: u16,
    count: u64,
    sum: u64,
    carry: u64,
    min: u64,
    max: u64,
}

// layout.c checks the same for the header.
static_assert!(size_of::<Head>() == 16);
static_assert!(size_of::<RowHead>() == 48);
static_assert!(offset_of!(RowHead, classes) == 6);

/// Words of a CPU for the core.
struct Cpu(CpuWords);

impl Words for Cpu {
    #[inline(always)]
    fn get(&self, index: usize) -> u64 {
        self.0.get(index)
    }

    #[inline(always)]
    fn set(&self, index: usize, value: u64) {
        self.0.set(index, value);
    }

    #[inline(always)]
    fn add(&self, index: usize, value: u64) {
        self.0.add(index, value);
    }

    #[inline(always)]
    fn add_wide(&self, low: usize, high: usize, value: u64) {
        self.0.add_wide(low, high, value);
    }

    #[inline(always)]
    fn replace(&self, index: usize, old: u64, new: u64) -> bool {
        self.0.replace(index, old, new)
    }
}

/// Tables of all CPUs.
pub(crate) struct Totals {
    layout: Layout,
    /// By CPU number.
    cpus: KVVec<Cpu>,
    /// Parts of the key, as user space gave them.
    by: CString,
    /// Argument with the value of a hit.
    value: Option<CString>,
    has_classes: bool,
    has_pid: bool,
    has_comm: bool,
    /// Words of a key before its arguments.
    start: usize,
    /// Processes with hits that count.
    selection: Selection,
}

/// Part of a key: the start, the values of arguments, and the class of the value.
pub(crate) struct Key {
    words: [u64; HEAD_WORDS + ARGS_MAX / 8],
    /// Words of the start.
    start: usize,
}

impl Area for Key {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let from = self.start.saturating_mul(8).saturating_add(at);
        let end = from.saturating_add(bytes.len());
        if let Some(room) = self.words.as_mut_bytes().get_mut(from..end) {
            room.copy_from_slice(bytes);
        }
    }
}

impl Totals {
    /// Makes empty tables for the current process, which is their reader: its own hits are left
    /// out.
    ///
    /// Errors: -E2BIG for too large tables, -ENOMEM, and errors of registering an exit on a hook.
    pub(crate) fn new(command: &TableCommand<'_>) -> Result<Self> {
        let (rows, words, all) = (command.rows, command.words, cpu::possible().count());
        let figures = match command.value {
            Some(_) => Figures::Values,
            None if command.times => Figures::Times,
            None => Figures::None,
        };
        let layout = Layout::new(rows, words, figures, all).ok_or(E2BIG)?;
        let last = cpu::possible().last().map_or(0, CpuId::get);
        let mut cpus = KVVec::new();
        for number in 0..=last {
            let is_possible = cpu::possible().any(|cpu| cpu.get() == number);
            let count = match is_possible {
                true => layout.words(),
                false => 0,
            };
            cpus.push(Cpu(CpuWords::new(count)?), GFP_KERNEL)?;
        }
        let mut pids = KVVec::new();
        for pid in command.pids() {
            pids.push(pid, GFP_KERNEL)?;
        }
        let reader = task::ids().process;
        let (has_pid, has_comm) = (command.has("pid"), command.has("comm"));
        let comm = usize::from(has_comm).saturating_mul(COMM_LEN / 8);
        Ok(Self {
            layout,
            cpus,
            by: CString::try_from_fmt(fmt!("{}", command.by))?,
            value: command
                .value
                .map(|name| CString::try_from_fmt(fmt!("{name}")))
                .transpose()?,
            has_classes: command.classes,
            has_pid,
            has_comm,
            start: usize::from(has_pid).saturating_add(comm).saturating_add(1),
            selection: Selection::new("kprobe_events", reader, &pids, command.children)?,
        })
    }

    /// Returns the parts of the key, with commas.
    pub(crate) fn keys(&self) -> Result<&str> {
        self.by.to_str().map_err(|_| EINVAL)
    }

    /// Returns the name of the argument with the value of a hit.
    pub(crate) fn value(&self) -> Result<Option<&str>> {
        let name = self.value.as_ref().map(|name| name.to_str());
        name.transpose().map_err(|_| EINVAL)
    }

    /// Returns true if keys have room for arguments of `size` bytes and for `calls`.
    pub(crate) fn has_room(&self, size: usize, calls: usize) -> bool {
        let fits = size <= ARGS_MAX;
        let words = self.start.saturating_add(size.div_ceil(8));
        fits && words.saturating_add(calls) <= self.layout.key_words()
    }

    /// Returns true if the hits of the current thread count.
    #[inline]
    pub(crate) fn has_current(&self) -> bool {
        self.selection.has_current()
    }

    /// Begins a key, with 0 for its arguments.
    #[inline]
    pub(crate) fn key(&self) -> Key {
        Key {
            words: [0; HEAD_WORDS + ARGS_MAX / 8],
            start: self.start,
        }
    }

    /// Replaces a value in a key by its class. Returns its magnitude.
    #[inline(never)]
    pub(crate) fn take_value(&self, key: &mut Key, arg: &Arg) -> u64 {
        let at = key.start.saturating_add(arg.offset / 8);
        let Some(word) = key.words.get_mut(at) else {
            return 0;
        };
        let value = Value::of_record(arg.ty, *word);
        *word = value.class(self.has_classes) as u64;
        value.magnitude
    }

    /// Adds a hit of a probe. `key` has `size` bytes of arguments with a class, and these fault
    /// bits. `number` is the time in the function, or the magnitude of the value.
    #[inline(never)]
    pub(crate) fn hit(
        &self,
        (probe, task): (u16, &TaskInfo),
        (key, size, faults): (&mut Key, usize, u32),
        calls: &[u8],
        number: u64,
    ) {
        let calls = <[u64]>::ref_from_bytes(calls).unwrap_or_default();
        let len = key.start.saturating_add(size.div_ceil(8));
        let words = len.saturating_add(calls.len());
        let first = words as u64 & 0xffff | u64::from(probe) << 16 | u64::from(faults) << 32;
        let mut start = key.words.iter_mut();
        let mut put = |word: u64| {
            if let Some(to) = start.next() {
                *to = word;
            }
        };
        put(first);
        if self.has_pid {
            put(task.pid as u32 as u64);
        }
        if self.has_comm {
            for part in task.comm.chunks_exact(8) {
                put(u64::from_le_bytes(*part.first_chunk().unwrap_or(&[0; 8])));
            }
        }
        let head = key.words.get(..len).unwrap_or_default();
        let cpu = usize::try_from(cpu::current_id()).unwrap_or(usize::MAX);
        if let Some(cpu) = self.cpus.get(cpu) {
            self.layout.add(cpu, head, calls, number);
        }
    }

    /// Returns the contents of the tables.
    pub(crate) fn read(&self) -> Result<KVVec<u8>> {
        let mut bytes = KVVec::new();
        let mut head = Head {
            version: VERSION,
            rows: 0,
            left_out: 0,
        };
        bytes.extend_from_slice(head.as_bytes(), GFP_KERNEL)?;
        for (number, cpu) in (0_u32..).zip(&self.cpus) {
            if cpu.0.is_empty() {
                continue;
            }
            head.left_out = head.left_out.wrapping_add(self.layout.left_out(cpu));
            for row in self.layout.rows(cpu) {
                head.rows = head.rows.wrapping_add(1);
                self.write(&row, cpu, number, &mut bytes)?;
                task::cond_resched_killable()?;
            }
        }
        let start = bytes.get_mut(..size_of::<Head>());
        start.ok_or(EINVAL)?.copy_from_slice(head.as_bytes());
        Ok(bytes)
    }

    fn write(&self, row: &Row, cpu: &Cpu, number: u32, bytes: &mut KVVec<u8>) -> Result {
        let at = bytes.len();
        // The count is read first: a hit adds to it first.
        let words = row.key(cpu, 0) as u16;
        let count = row.count(cpu);
        let Sums {
            sum,
            carry,
            min,
            max,
        } = row.sums(cpu);
        let mut head = RowHead {
            cpu: number,
            words,
            classes: 0,
            count,
            sum,
            carry,
            min,
            max,
        };
        bytes.extend_from_slice(head.as_bytes(), GFP_KERNEL)?;
        for index in 0..usize::from(words) {
            bytes.extend_from_slice(row.key(cpu, index).as_bytes(), GFP_KERNEL)?;
        }
        for (class, count) in row.classes(cpu) {
            let pair = [class as u64, count];
            bytes.extend_from_slice(pair.as_bytes(), GFP_KERNEL)?;
            head.classes = head.classes.wrapping_add(1);
        }
        let end = at.saturating_add(size_of::<RowHead>());
        let start = bytes.get_mut(at..end).ok_or(EINVAL)?;
        start.copy_from_slice(head.as_bytes());
        Ok(())
    }
}
