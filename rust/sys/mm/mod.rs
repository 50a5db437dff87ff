// SPDX-License-Identifier: GPL-2.0

//! Memory: pages that are mapped into user space, and executable memory.

#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod exec_pool;
pub mod nofault;
pub mod pages;
pub mod reserve_mem;
