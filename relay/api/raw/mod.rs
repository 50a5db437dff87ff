// SPDX-License-Identifier: GPL-2.0

//! What only the safe relay API needs `unsafe` for.

pub(crate) mod buf;
pub(crate) mod channel;
pub(crate) mod leaked_channels;
pub(crate) mod listener;
