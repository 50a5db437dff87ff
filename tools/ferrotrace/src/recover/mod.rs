// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace recover`: what a fast channel in memory that survives a reboot had when the kernel died, as a recording.
//!
//! [`memory`] gets at the memory, through the kernel or from a copy of it; [`save`] writes what of it are records for certain, and
//! tells what is not. `ferro_fast_relay_core::persistent` decides that.

#![deny(unsafe_code)]

pub mod memory;
pub mod save;
