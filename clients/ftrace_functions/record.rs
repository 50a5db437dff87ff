// SPDX-License-Identifier: GPL-2.0

//! Record of a call: `<uapi/linux/ferrotrace_ftrace_functions.h>`.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use core::mem::offset_of;

use ferro_sys::cpu;
use kernel::prelude::*;
use zerocopy_derive::Immutable;
use zerocopy_derive::IntoBytes;

/// `struct ferrotrace_function_record`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Record {
    ip: usize,
    duration: u64,
    pid: i32,
    cpu: u32,
}

// layout.c checks the same for the header.
static_assert!(size_of::<Record>() == 24);
static_assert!(offset_of!(Record, duration) == 8);
static_assert!(offset_of!(Record, pid) == 16);
static_assert!(offset_of!(Record, cpu) == 20);

/// Type of these records in the channel.
pub(crate) const KIND: u16 = 0;

/// Format of these records for `ferrotrace relay merge`.
pub(crate) const FORMAT: &str = "name: function
ID: 0
format:
\tfield:u64 ip;\toffset:0;\tsize:8;\tsigned:0;
\tfield:u64 duration;\toffset:8;\tsize:8;\tsigned:0;
\tfield:s32 pid;\toffset:16;\tsize:4;\tsigned:1;
\tfield:u32 cpu;\toffset:20;\tsize:4;\tsigned:0;
";

impl Record {
    /// Makes a record of a call on this CPU.
    #[inline]
    pub(crate) fn new(ip: usize, duration: u64, pid: i32) -> Self {
        Self {
            ip,
            duration,
            pid,
            cpu: cpu::current_id(),
        }
    }
}
