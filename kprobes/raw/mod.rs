// SPDX-License-Identifier: GPL-2.0

//! The `unsafe` code of the kprobes engine.

pub(crate) mod detour;
pub(crate) mod die_notifier;
pub(crate) mod ftrace_sites;
pub(crate) mod grace_period;
pub(crate) mod insn_stub;
pub(crate) mod kprobe;
pub(crate) mod kretprobe;
pub(crate) mod lookup;
pub(crate) mod map_writer;
pub(crate) mod module_notifier;
pub(crate) mod mutex;
pub(crate) mod optimizer_work;
pub(crate) mod probe_point;
pub(crate) mod trap_frame;
pub(crate) mod trap_hooks;
