// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's user-space side: recording relay channels and decoding what was recorded.
//!
//! [`relay`] talks to the kernel, [`report`] reads recordings. The only unsafe code is in
//! `relay/mapping.rs`.

pub mod relay;
pub mod report;
