// SPDX-License-Identifier: GPL-2.0

//! What only fast channels need `unsafe` for.

pub(crate) mod module_notifier;
pub(crate) mod mutex;
pub(crate) mod persistent;
pub(crate) mod ring;
