// SPDX-License-Identifier: GPL-2.0

//! Permission to probe functions that ftrace cannot trace.
//!
//! Contexts: any.

/// Permission to probe functions that ftrace cannot trace, for
/// [`Builder::untraceable`](crate::Builder::untraceable).
#[derive(Clone, Copy)]
pub struct Untraceable(());

impl Untraceable {
    /// Grants the permission.
    ///
    /// # Safety
    ///
    /// No tracer executes the functions while it handles traced code, and breakpoint handling does
    /// not execute them either: hits would nest without end. Other code without ftrace sites, such
    /// as assembly or Rust, may be probed.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}
