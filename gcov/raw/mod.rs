// SPDX-License-Identifier: GPL-2.0

//! Code of this engine that needs `unsafe`.

mod counter_ranges;
pub(crate) mod hooks;
mod llvm;
pub(crate) mod object;
pub(crate) mod owner;
pub(crate) mod takeover;
pub(crate) mod tree;
