// SPDX-License-Identifier: GPL-2.0

//! What only the relay engine needs `unsafe` for, and the structures that C sees.

pub(crate) mod abi;
pub(crate) mod client;
pub(crate) mod mutex;
