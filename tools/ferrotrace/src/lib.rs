// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's user-space side: recording relay channels and decoding what was recorded.
//!
//! [`relay`] talks to the kernel, [`fast`] is the format of fast channels, [`merge`] reads
//! recordings. The only unsafe code is in `relay/mapping.rs`.

pub mod fast;
pub mod merge;
pub mod relay;
