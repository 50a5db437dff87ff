// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's user-space side: recording relay channels and decoding what was recorded.
//!
//! [`relay`] talks to the kernel, [`report`] reads recordings, [`fast`] knows the records of fast
//! channels. The only unsafe code is in
//! `relay/mapping.rs`.

pub mod fast;
pub mod relay;
pub mod report;
