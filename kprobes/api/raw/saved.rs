// SPDX-License-Identifier: GPL-2.0

//! The registers of probed code that may be looked at, but not all of them changed.
//!
//! Contexts: any, NMI included.

use kernel::bindings;
use kernel::prelude::*;

use super::register::word;
use super::register::Register;
use super::register::WORDS;

/// A register that may be looked at: those of [`Register`], in the same order, and two more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Saved {
    Ax,
    Bx,
    Cx,
    Dx,
    Si,
    Di,
    Bp,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    Sp,
    Flags,
}

static_assert!(Saved::Flags as usize + 1 == WORDS);
static_assert!(Register::R15 as usize == Saved::R15 as usize);

impl Saved {
    /// Its value.
    #[inline(always)]
    pub(crate) fn of(self, regs: &bindings::pt_regs) -> usize {
        word(regs, self as usize)
    }
}
