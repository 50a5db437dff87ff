// SPDX-License-Identifier: GPL-2.0

//! The kernel's own code: its symbols, its patching, and its ftrace sites.

#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
mod alu;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod ftrace_data;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod ftrace_ops;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod jump_site;
pub mod kallsyms;
pub mod modules;
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
pub mod regs;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod symbols;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod text;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod text_tables;
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
pub mod trap_frame;
