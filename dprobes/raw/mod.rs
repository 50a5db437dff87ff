// SPDX-License-Identifier: GPL-2.0

//! What only this engine needs `unsafe` for.

pub(crate) mod callee;
pub(crate) mod cpu;
pub(crate) mod facility;
pub(crate) mod file;
pub(crate) mod module_name;
pub(crate) mod permission;
pub(crate) mod regs;
pub(crate) mod scratch;
mod stage;
pub(crate) mod task;
pub(crate) mod uprobe;
pub(crate) mod watch;
pub(crate) mod worker;
