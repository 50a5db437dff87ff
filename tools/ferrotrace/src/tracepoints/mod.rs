// SPDX-License-Identifier: GPL-2.0

//! Tracepoints and system calls of any kernel with tracefs.
//!
//! [`resolve`] finds their events and makes filters, [`mod@format`] decodes their fields, [`hit`]
//! makes hits of records, and [`count`] counts hits in the kernel.

#![deny(unsafe_code)]

pub mod comm;
pub mod count;
pub mod error;
pub mod format;
pub mod hit;
mod names;
pub mod resolve;
pub mod spec;
