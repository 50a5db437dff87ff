// SPDX-License-Identifier: GPL-2.0

//! State that the points of all programs share: global variables, scratch memory, pending records,
//! and the channel.
//!
//! Contexts: making process; the rest any, NMI included.
#![deny(unsafe_code)]

use ferro_dprobes_core::Target;
use ferro_dprobes_core::RECORD_LEN;
use ferro_dprobes_core::VARIABLES_MAX;
use ferro_fast_relay::Channel;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::cpu_records::CpuRecords;
use crate::cpu_records::RECORD_MAX;
use crate::klog_text;
use crate::raw::current;
use crate::raw::scratch::Scratch;
use crate::task_records::TaskRecord;
use crate::task_records::TaskRecords;
use crate::variables::Variables;

/// Type of records in the channel.
pub(crate) const KIND: u16 = 1;

/// Format of the fields that `ferrotrace relay merge` shows without further knowledge.
const FORMAT: &str = "name: dprobe
ID: 1
format:
\tfield:u32 major;\toffset:0;\tsize:4;\tsigned:0;
\tfield:u32 minor;\toffset:4;\tsize:4;\tsigned:0;
\tfield:u16 fields;\toffset:8;\tsize:2;\tsigned:0;
\tfield:u16 exception;\toffset:10;\tsize:2;\tsigned:0;
\tfield:u32 cpu;\toffset:12;\tsize:4;\tsigned:0;
";

/// Smallest size of a sub-buffer, in which the longest record fits.
const SUBBUF_MIN: usize = RECORD_MAX.next_power_of_two();

/// Length of the most frequent records: with an entry of 16 bytes of memory, or of two words.
const USUAL: usize = RECORD_LEN + 3 + 16;

/// Destination of a point's records, and the fields that they have.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) fields: u16,
    pub(crate) target: Target,
}

/// State that all points share.
#[pin_data]
pub(crate) struct Runtime {
    pub(crate) globals: Variables,
    pub(crate) scratch: Scratch<CpuRecords>,
    pub(crate) channel: Channel,
    /// Pending records of points in user space.
    #[pin]
    pub(crate) task_records: TaskRecords,
    next_point_number: Word,
}

impl Runtime {
    /// Opens the channel, and allocates the rest. Errors: -EINVAL if the sub-buffers are too small;
    /// those of opening the channel; -ENOMEM.
    pub(crate) fn new(subbuf_size: usize, n_subbufs: usize) -> Result<Arc<Self>> {
        if subbuf_size < SUBBUF_MIN {
            pr_err!("subbuf_size={subbuf_size}: the longest record needs {SUBBUF_MIN}\n");
            return Err(EINVAL);
        }
        let channel = Channel::builder(c"ferrotrace_dprobes")
            .subbuf_size(subbuf_size)
            .n_subbufs(n_subbufs)
            .format(FORMAT)
            .open()?;
        Arc::pin_init(
            try_pin_init!(Self {
                globals: Variables::new(VARIABLES_MAX)?,
                scratch: Scratch::new()?,
                channel,
                task_records <- TaskRecords::new(),
                next_point_number: Word::new(1),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns a unique number for a point; numbers are never reused.
    pub(crate) fn number_point(&self) -> usize {
        self.next_point_number.add(1)
    }

    /// Takes all records of the current task, after a probed instruction in user space was executed
    /// or abandoned. If the instruction at `address` was executed, writes its records. Drops the
    /// others.
    pub(crate) fn complete_in_task(&self, address: usize, is_executed: bool) {
        let task = current::task();
        while let Some(pending) = self.task_records.take(task) {
            if is_executed && pending.address == address {
                self.write_task_record(&pending);
            }
        }
    }

    /// Writes a record that has waited in a task.
    pub(crate) fn write_task_record(&self, pending: &TaskRecord) {
        self.write(&pending.record, pending.target);
    }

    /// Writes a contiguous record to the channel or to klog.
    #[inline(always)]
    pub(crate) fn write(&self, record: &[u8], target: Target) {
        // The channel counts records that do not fit.
        match target {
            // The length is a constant, so that the compiler inlines the copy.
            Target::Relay => match <&[u8; USUAL]>::try_from(record) {
                Ok(record) => drop(self.channel.write_timed(KIND, record)),
                Err(_) => self.write_long(record),
            },
            Target::Klog => klog_text::print_bytes(record),
        }
    }

    /// Writes a record of any length to the channel.
    #[inline(never)]
    fn write_long(&self, record: &[u8]) {
        let _ = self.channel.write_timed(KIND, record);
    }
}
