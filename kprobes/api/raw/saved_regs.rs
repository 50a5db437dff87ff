// SPDX-License-Identifier: GPL-2.0

//! Readable registers of probed code; handlers can change some of them.
//!
//! Contexts: any, NMI included.

use kernel::bindings;
use kernel::prelude::*;

use super::gpr::word;
use super::gpr::Register;
use super::gpr::WORDS;

/// Readable register: a [`Register`], the stack pointer or RFLAGS.
///
/// # Invariants
///
/// The number is less than [`WORDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved(u8);

static_assert!(Register::R15 as usize + 3 == WORDS);

impl Saved {
    // INVARIANT: They follow the last `Register`, as the assertion above says.
    /// Stack pointer.
    pub const SP: Self = Self(Register::R15 as u8 + 1);
    /// RFLAGS.
    pub const FLAGS: Self = Self(Register::R15 as u8 + 2);

    /// Returns a register that can be changed, too.
    pub const fn general(register: Register) -> Self {
        // INVARIANT: The last `Register` is less.
        Self(register as u8)
    }

    /// Returns its value.
    #[inline(always)]
    pub(crate) fn of(self, regs: &bindings::pt_regs) -> usize {
        word(regs, self.0 as usize)
    }
}
