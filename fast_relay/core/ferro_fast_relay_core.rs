// SPDX-License-Identifier: GPL-2.0

//! Pure logic of fast channels: the ring of records, and memory that survives a reboot.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

pub mod persistent;
pub mod ring;
