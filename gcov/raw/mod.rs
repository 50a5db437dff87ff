// SPDX-License-Identifier: GPL-2.0

//! What only this engine needs `unsafe` for.

mod counter_ranges;
pub(crate) mod hooks;
mod llvm;
pub(crate) mod mutex;
pub(crate) mod object;
pub(crate) mod owner;
pub(crate) mod takeover;
pub(crate) mod tree;
