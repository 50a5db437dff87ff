// SPDX-License-Identifier: GPL-2.0

//! The permission to change what probed code does.
//!
//! Contexts: any.

/// Permission to change the registers of probed code.
pub struct Alter(());

impl Alter {
    /// # Safety
    ///
    /// What is changed by means of this leaves the probed code, its callers and what they call as sound as
    /// they were: the values are ones that they could have had, and where execution goes on, it could have
    /// gone on in this state.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// Where to go on instead of the probed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(usize);

impl Destination {
    /// At `address`, which is one that the probed code could have gone on at.
    pub(crate) fn new(_alter: &Alter, address: usize) -> Self {
        Self(address)
    }

    pub(super) fn address(self) -> usize {
        self.0
    }
}
