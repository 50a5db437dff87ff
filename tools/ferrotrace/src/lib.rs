// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's user-space side: recording relay channels, decoding what was recorded, and looking
//! after hooks.
//!
//! [`relay`] drains the kernel's channels, [`fast`] is the format of fast channels, [`merge`] reads
//! recordings; [`hooks`] shows and arms the exits on the kernel's hooks. The only unsafe code is in
//! `relay/mapping.rs`.

pub mod fast;
pub mod hooks;
pub mod merge;
pub mod relay;
pub mod signals;
