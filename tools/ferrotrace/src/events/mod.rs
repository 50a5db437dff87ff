// SPDX-License-Identifier: GPL-2.0

//! Recording events of tracefs, which any kernel has, into recordings like those of channels, which the other commands read.

#![deny(unsafe_code)]

pub mod format;
pub mod record;
