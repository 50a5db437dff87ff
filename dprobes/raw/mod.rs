// SPDX-License-Identifier: GPL-2.0

//! Wrappers that need `unsafe`, for this engine only.

pub(crate) mod call_targets;
pub(crate) mod current;
pub(crate) mod module_notifier;
pub(crate) mod permission;
pub(crate) mod probed_file;
pub(crate) mod regs;
pub(crate) mod scratch;
mod unregister_stage;
pub(crate) mod uprobe;
pub(crate) mod watch;
pub(crate) mod worker;
