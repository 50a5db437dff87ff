// SPDX-License-Identifier: GPL-2.0

//! Probe programs (`Documentation/dprobes-programs.rst`).
//!
//! [`lang`] reads files, [`locate`] finds where their points are, with [`crate::elf`], [`crate::kallsyms`] and
//! [`module_file`]; [`set`] makes bytes of them, [`built`] files of these, and
//! [`load`] puts these together. [`control`] talks to the kernel's module `rust_dprobes`, whose [`state`] [`report`] shows;
//! [`event`] decodes records, and [`watch`] shows them as they come.

pub mod built;
pub mod control;
pub mod error;
pub mod event;
pub mod lang;
pub mod load;
pub mod loaded;
pub mod locate;
pub mod module_file;
pub mod report;
pub mod set;
pub mod state;
pub mod watch;
