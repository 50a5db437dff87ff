// SPDX-License-Identifier: GPL-2.0

//! The kernel's means of tracing that are no engine of ours.

pub mod tracepoint;
