// SPDX-License-Identifier: GPL-2.0

//! Code of the trampoline engine that needs `unsafe`. Safe code implements the trait in `hooks.rs`
//! to handle the kernel's requests.

pub(crate) mod data_lock;
pub(crate) mod func_data;
pub(crate) mod hooks;
pub(crate) mod ops;
pub(crate) mod ops_sets;
pub(crate) mod rebuild;
pub(crate) mod shared_trampoline;
pub(crate) mod step;
pub(crate) mod template;
pub(crate) mod trampoline;
