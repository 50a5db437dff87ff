// SPDX-License-Identifier: GPL-2.0

//! What only this engine needs `unsafe` for.

pub(crate) mod handover;
pub(crate) mod home;
pub(crate) mod hooks;
mod llvm;
pub(crate) mod mutex;
pub(crate) mod object;
mod spans;
pub(crate) mod tree;
