// SPDX-License-Identifier: GPL-2.0

//! Reading relay channels: the per-CPU buffers through which a kernel client passes data to user
//! space.

pub mod buffer;
pub mod channel;
pub mod drain;
mod drain_mapped;
mod drain_read;
pub mod error;
pub mod files;
pub mod klog;
pub mod list;
pub mod mapping;
#[cfg(test)]
mod model;
pub mod output;
mod progress;
pub mod record;
pub mod source;
pub mod stat;
pub mod tally;
mod worker;
