// SPDX-License-Identifier: GPL-2.0

//! Code of the relay engine that needs `unsafe`, and the structures that C sees.

pub(crate) mod abi;
pub(crate) mod client;
