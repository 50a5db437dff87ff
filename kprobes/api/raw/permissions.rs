// SPDX-License-Identifier: GPL-2.0

//! Permissions that only `unsafe` code grants: to change the behaviour of probed code, and to probe
//! functions that ftrace cannot trace.
//!
//! Contexts: any.

extern "C" {
    /// `just_return.c`
    fn ferro_just_return();
}

/// Permission to change the registers of probed code.
pub struct Alter(());

impl Alter {
    /// Grants the permission.
    ///
    /// # Safety
    ///
    /// Changes made with this leave the probed code, its callers and its callees as sound as they
    /// were. The new values are ones that the code could have had. At a new address, execution
    /// could have continued in this state.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// Address to continue at instead of the probed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(usize);

impl Destination {
    /// Continues at `address`, where the probed code could have continued.
    pub(crate) fn new(_alter: &Alter, address: usize) -> Self {
        Self(address)
    }

    pub(super) fn address(self) -> usize {
        self.0
    }
}

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

/// Returns the address of a function that only returns.
pub(crate) fn just_return() -> usize {
    (ferro_just_return as unsafe extern "C" fn() as *const ()).addr()
}
