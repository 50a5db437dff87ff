// SPDX-License-Identifier: GPL-2.0

//! Means of tracing in the kernel outside of our engines, and lockdown.

pub mod lockdown;
pub mod stack;
pub mod tracepoint;
