// SPDX-License-Identifier: GPL-2.0

//! Pure logic of Ferrotrace: no kernel, no `unsafe`, no allocation.
//!
//! Kbuild compiles this crate into the kernel. Cargo compiles the same files on the host, where
//! `cargo test` and Miri run them.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

pub mod blacklist_names;
pub mod exec;
pub mod histogram;
pub mod insn;
pub mod relay;
