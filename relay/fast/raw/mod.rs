// SPDX-License-Identifier: GPL-2.0

//! What only fast channels need `unsafe` for.

pub(crate) mod flight;
pub(crate) mod module_exit;
pub(crate) mod mutex;
pub(crate) mod ring;
