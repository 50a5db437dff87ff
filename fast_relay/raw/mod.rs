// SPDX-License-Identifier: GPL-2.0

//! Code of fast channels that needs `unsafe`.

pub(crate) mod module_notifier;
pub(crate) mod persistent;
pub(crate) mod ring;
