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
    /// No tracer executes the functions for what it traces, and neither does the handling of a breakpoint: hits would nest without
    /// end. Code without sites of ftrace that is not part of either, such as assembly or Rust, may be probed.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}
