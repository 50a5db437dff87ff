// SPDX-License-Identifier: GPL-2.0

//! Record of a hit: `<uapi/linux/ferrotrace_kprobe_events.h>`.
//!
//! A record of type 0 has the registers. A record of another type has the arguments of the probe
//! with that type.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use core::mem::offset_of;

use ferro_fast_relay::Placed;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::Register;
use ferro_kprobe::Saved;
use ferro_kprobe_events_core::probe_command::Kind;
use ferro_sys::cpu;
use ferro_sys::trace::tracepoint::TaskInfo;
use ferro_sys::trace::tracepoint::COMM_LEN;
use kernel::prelude::*;
use zerocopy::IntoBytes;
use zerocopy_derive::Immutable;
use zerocopy_derive::IntoBytes;

/// `struct ferrotrace_probe_hit`: the start of each record.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Head {
    cpu: u32,
    pid: i32,
    comm: [u8; COMM_LEN],
    probe: u32,
    kind: u32,
    ip: usize,
    duration: u64,
}

/// Size of `struct ferrotrace_probe_record` in bytes: the head, then the registers of
/// [`REGISTERS`].
pub(crate) const RECORD_LEN: usize = ARGS_AT + REGISTERS.len() * size_of::<usize>();

/// Type of records with registers.
pub(crate) const WITH_REGISTERS: u16 = 0;

/// Offset of the arguments in the other records.
pub(crate) const ARGS_AT: usize = size_of::<Head>();

// layout.c checks the same for the header.
static_assert!(size_of::<Head>() == 48);
static_assert!(offset_of!(Head, comm) == 8);
static_assert!(offset_of!(Head, probe) == 24);
static_assert!(offset_of!(Head, kind) == 28);
static_assert!(offset_of!(Head, ip) == 32);
static_assert!(offset_of!(Head, duration) == 40);
static_assert!(RECORD_LEN == 184);

const REGISTERS: [Saved; 17] = [
    Saved::general(Register::Ax),
    Saved::general(Register::Bx),
    Saved::general(Register::Cx),
    Saved::general(Register::Dx),
    Saved::general(Register::Si),
    Saved::general(Register::Di),
    Saved::general(Register::Bp),
    Saved::SP,
    Saved::general(Register::R8),
    Saved::general(Register::R9),
    Saved::general(Register::R10),
    Saved::general(Register::R11),
    Saved::general(Register::R12),
    Saved::general(Register::R13),
    Saved::general(Register::R14),
    Saved::general(Register::R15),
    Saved::FLAGS,
];

/// Format of [`Head`] for `ferrotrace relay merge`.
pub(crate) const HEAD_FORMAT: &str = "\
\tfield:u32 cpu;\toffset:0;\tsize:4;\tsigned:0;
\tfield:s32 pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:u32 probe;\toffset:24;\tsize:4;\tsigned:0;
\tfield:u32 kind;\toffset:28;\tsize:4;\tsigned:0;
\tfield:u64 ip;\toffset:32;\tsize:8;\tsigned:0;
\tfield:u64 duration;\toffset:40;\tsize:8;\tsigned:0;
";

/// Format of the registers for `ferrotrace relay merge`.
pub(crate) const REGISTERS_FORMAT: &str = "\
\tfield:void * ax;\toffset:48;\tsize:8;\tsigned:0;
\tfield:void * bx;\toffset:56;\tsize:8;\tsigned:0;
\tfield:void * cx;\toffset:64;\tsize:8;\tsigned:0;
\tfield:void * dx;\toffset:72;\tsize:8;\tsigned:0;
\tfield:void * si;\toffset:80;\tsize:8;\tsigned:0;
\tfield:void * di;\toffset:88;\tsize:8;\tsigned:0;
\tfield:void * bp;\toffset:96;\tsize:8;\tsigned:0;
\tfield:void * sp;\toffset:104;\tsize:8;\tsigned:0;
\tfield:void * r8;\toffset:112;\tsize:8;\tsigned:0;
\tfield:void * r9;\toffset:120;\tsize:8;\tsigned:0;
\tfield:void * r10;\toffset:128;\tsize:8;\tsigned:0;
\tfield:void * r11;\toffset:136;\tsize:8;\tsigned:0;
\tfield:void * r12;\toffset:144;\tsize:8;\tsigned:0;
\tfield:void * r13;\toffset:152;\tsize:8;\tsigned:0;
\tfield:void * r14;\toffset:160;\tsize:8;\tsigned:0;
\tfield:void * r15;\toffset:168;\tsize:8;\tsigned:0;
\tfield:void * flags;\toffset:176;\tsize:8;\tsigned:0;
";

impl Head {
    /// Fills a head from the state of a handler on this CPU.
    #[inline]
    pub(crate) fn new(
        probe: u32,
        kind: Kind,
        ctx: &ProbeCtx<'_>,
        task: &TaskInfo,
        duration: u64,
    ) -> Self {
        Self {
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
        }
    }

    /// Writes the head to a record.
    #[inline(always)]
    pub(crate) fn put(&self, record: &mut Placed<'_>) {
        let bytes = self.as_bytes().first_chunk::<ARGS_AT>();
        record.put(0, *bytes.unwrap_or(&[0; ARGS_AT]));
    }
}

/// Writes the registers to a record.
#[inline(always)]
pub(crate) fn put_registers(ctx: &ProbeCtx<'_>, record: &mut Placed<'_>) {
    let mut at = ARGS_AT;
    for register in REGISTERS {
        record.put(at, ctx.saved(register).to_le_bytes());
        at = at.wrapping_add(size_of::<usize>());
    }
}

/// Destination of values, each at its offset, in ascending order.
pub(crate) trait Area {
    fn put(&mut self, at: usize, bytes: &[u8]);
}

impl<const N: usize> Area for [u8; N] {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at.saturating_add(bytes.len());
        if let Some(room) = self.get_mut(at..end) {
            room.copy_from_slice(bytes);
        }
    }
}
