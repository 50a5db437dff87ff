// SPDX-License-Identifier: GPL-2.0

//! The `unsafe` code of the registry.

pub(crate) mod deferred_release;
pub(crate) mod exit;
pub(crate) mod locks;
pub(crate) mod publisher;
