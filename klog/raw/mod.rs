// SPDX-License-Identifier: GPL-2.0

//! Wrappers that need `unsafe`, for klog only.

pub(crate) mod handler;
pub(crate) mod text_buf;
