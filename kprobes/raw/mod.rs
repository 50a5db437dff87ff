// SPDX-License-Identifier: GPL-2.0

//! What only the kprobes engine needs `unsafe` for.

pub(crate) mod address_map;
pub(crate) mod after;
pub(crate) mod apart;
mod arithmetic;
pub(crate) mod detour;
pub(crate) mod die_notifier;
pub(crate) mod fixup;
pub(crate) mod ftrace_sites;
pub(crate) mod kprobe;
pub(crate) mod kretprobe;
pub(crate) mod module_exit;
pub(crate) mod mutex;
pub(crate) mod optimiser;
pub(crate) mod probe_list;
pub(crate) mod reap;
pub(crate) mod running;
pub(crate) mod trap;
pub(crate) mod traps;
