// SPDX-License-Identifier: GPL-2.0

//! What only the safe relay API needs `unsafe` for.

pub(crate) mod buf;
pub(crate) mod channel;
pub(crate) mod kept;
pub(crate) mod listener;
