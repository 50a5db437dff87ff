// SPDX-License-Identifier: GPL-2.0

//! The permission to probe functions that ftrace cannot trace.
//!
//! Contexts: any.

/// The permission to probe functions that ftrace cannot trace, as [`Builder::untraceable`](crate::Builder::untraceable) wants it.
#[derive(Clone, Copy)]
pub struct Untraceable(());

impl Untraceable {
    /// # Safety
    ///
    /// No tracer executes the functions for what it traces, and the handling of a breakpoint does not either: hits would nest
    /// without end. Other code without sites of ftrace, such as assembly or Rust, may be probed.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}
