// SPDX-License-Identifier: GPL-2.0

//! Probe programs (`Documentation/dprobes.rst`): their language, and the kernel's module `rust_dprobes`.

pub mod control;
pub mod elf;
pub mod error;
pub mod event;
pub mod kallsyms;
pub mod lang;
pub mod load;
pub mod loaded;
pub mod locate;
pub mod report;
pub mod set;
pub mod state;
pub mod watch;
