// SPDX-License-Identifier: GPL-2.0

//! What only klog needs `unsafe` for.

pub(crate) mod handler;
pub(crate) mod text_buf;
