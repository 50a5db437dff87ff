// SPDX-License-Identifier: GPL-2.0

//! What only the kprobes engine needs `unsafe` for.

pub(crate) mod after;
pub(crate) mod kretprobe;
pub(crate) mod module_exit;
pub(crate) mod mutex;
pub(crate) mod reap;
pub(crate) mod traps;
