// SPDX-License-Identifier: GPL-2.0

//! The kernel's means of tracing that are no engine of ours, and what forbids it.

pub mod lockdown;
pub mod stack;
pub mod tracepoint;
