// SPDX-License-Identifier: GPL-2.0

//! Code of the safe relay API that needs `unsafe`.

pub(crate) mod buf;
pub(crate) mod channel;
pub(crate) mod leaked_channels;
pub(crate) mod listener;
pub(crate) mod module_notifier;
