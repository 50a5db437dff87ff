// SPDX-License-Identifier: GPL-2.0

//! What only the registry needs `unsafe` for.

pub(crate) mod deferred_release;
pub(crate) mod exit;
pub(crate) mod locks;
pub(crate) mod publisher;
