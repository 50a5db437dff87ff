// SPDX-License-Identifier: GPL-2.0

//! The registers of probed code that may be looked at, but not all of them changed.
//!
//! Contexts: any, NMI included.

use kernel::bindings;
use kernel::prelude::*;

use super::gpr::word;
use super::gpr::Register;
use super::gpr::WORDS;

/// A register that may be looked at: each [`Register`], and two more.
///
/// # Invariants
///
/// It is less than [`WORDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved(u8);

static_assert!(Register::R15 as usize + 3 == WORDS);

impl Saved {
    // INVARIANT: They follow the last `Register`, as the assertion above says.
    /// The stack pointer.
    pub const SP: Self = Self(Register::R15 as u8 + 1);
    /// RFLAGS.
    pub const FLAGS: Self = Self(Register::R15 as u8 + 2);

    /// One that may be changed, too.
    pub const fn general(register: Register) -> Self {
        // INVARIANT: The last `Register` is less.
        Self(register as u8)
    }

    /// Its value.
    #[inline(always)]
    pub(crate) fn of(self, regs: &bindings::pt_regs) -> usize {
        word(regs, self.0 as usize)
    }
}
