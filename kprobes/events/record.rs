// SPDX-License-Identifier: GPL-2.0

//! What is written for each hit: `<uapi/linux/ferrotrace_kprobe_events.h>`.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use core::mem::offset_of;

use ferro_core::probe_command::Kind;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::Register;
use ferro_sys::cpu;
use ferro_sys::trace::tracepoint::TaskInfo;
use ferro_sys::trace::tracepoint::COMM_LEN;
use kernel::prelude::*;
use zerocopy_derive::Immutable;
use zerocopy_derive::IntoBytes;

/// `struct ferrotrace_probe_record`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Record {
    time: u64,
    cpu: u32,
    pid: i32,
    comm: [u8; COMM_LEN],
    probe: u32,
    kind: u32,
    ip: usize,
    duration: u64,
    /// In the order of [`REGISTERS`], the stack pointer between.
    low: [usize; 7],
    sp: usize,
    high: [usize; 8],
    flags: usize,
}

// layout.c has the same of the header.
static_assert!(size_of::<Record>() == 192);
static_assert!(offset_of!(Record, comm) == 16);
static_assert!(offset_of!(Record, probe) == 32);
static_assert!(offset_of!(Record, kind) == 36);
static_assert!(offset_of!(Record, ip) == 40);
static_assert!(offset_of!(Record, duration) == 48);
static_assert!(offset_of!(Record, low) == 56);
static_assert!(offset_of!(Record, sp) == 112);
static_assert!(offset_of!(Record, flags) == 184);

const LOW: [Register; 7] = [
    Register::Ax,
    Register::Bx,
    Register::Cx,
    Register::Dx,
    Register::Si,
    Register::Di,
    Register::Bp,
];
const HIGH: [Register; 8] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The same for `ferrotrace relay merge`.
pub(crate) const FORMAT: &str = "name: probe
ID: 0
format:
\tfield:u64 time;\toffset:0;\tsize:8;\tsigned:0;
\tfield:u32 cpu;\toffset:8;\tsize:4;\tsigned:0;
\tfield:s32 pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;
\tfield:u32 probe;\toffset:32;\tsize:4;\tsigned:0;
\tfield:u32 kind;\toffset:36;\tsize:4;\tsigned:0;
\tfield:u64 ip;\toffset:40;\tsize:8;\tsigned:0;
\tfield:u64 duration;\toffset:48;\tsize:8;\tsigned:0;
\tfield:void * ax;\toffset:56;\tsize:8;\tsigned:0;
\tfield:void * bx;\toffset:64;\tsize:8;\tsigned:0;
\tfield:void * cx;\toffset:72;\tsize:8;\tsigned:0;
\tfield:void * dx;\toffset:80;\tsize:8;\tsigned:0;
\tfield:void * si;\toffset:88;\tsize:8;\tsigned:0;
\tfield:void * di;\toffset:96;\tsize:8;\tsigned:0;
\tfield:void * bp;\toffset:104;\tsize:8;\tsigned:0;
\tfield:void * sp;\toffset:112;\tsize:8;\tsigned:0;
\tfield:void * r8;\toffset:120;\tsize:8;\tsigned:0;
\tfield:void * r9;\toffset:128;\tsize:8;\tsigned:0;
\tfield:void * r10;\toffset:136;\tsize:8;\tsigned:0;
\tfield:void * r11;\toffset:144;\tsize:8;\tsigned:0;
\tfield:void * r12;\toffset:152;\tsize:8;\tsigned:0;
\tfield:void * r13;\toffset:160;\tsize:8;\tsigned:0;
\tfield:void * r14;\toffset:168;\tsize:8;\tsigned:0;
\tfield:void * r15;\toffset:176;\tsize:8;\tsigned:0;
\tfield:void * flags;\toffset:184;\tsize:8;\tsigned:0;
";

impl Record {
    /// What is to be seen in a handler on this CPU.
    #[inline]
    pub(crate) fn new(
        probe: u32,
        kind: Kind,
        ctx: &ProbeCtx<'_>,
        time: u64,
        duration: u64,
    ) -> Self {
        let task = TaskInfo::current();
        Self {
            time,
            cpu: cpu::current_id(),
            pid: task.pid,
            comm: task.comm,
            probe,
            kind: match kind {
                Kind::Point => 0,
                Kind::Return => 1,
            },
            ip: ctx.ip(),
            duration,
            low: LOW.map(|register| ctx.register(register)),
            sp: ctx.sp(),
            high: HIGH.map(|register| ctx.register(register)),
            flags: ctx.flags(),
        }
    }
}
