// SPDX-License-Identifier: GPL-2.0

//! Permission to change the behaviour of probed code.
//!
//! Contexts: any.

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
