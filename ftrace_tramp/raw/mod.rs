// SPDX-License-Identifier: GPL-2.0

//! What only the trampoline engine needs `unsafe` for.

pub(crate) mod code;
pub(crate) mod data;
pub(crate) mod hooks;
pub(crate) mod mutex;
pub(crate) mod ops;
pub(crate) mod renew;
pub(crate) mod sets;
pub(crate) mod stand_in;
pub(crate) mod template;
