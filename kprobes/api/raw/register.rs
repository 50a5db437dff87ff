// SPDX-License-Identifier: GPL-2.0

//! The general purpose registers in a `struct pt_regs`.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

/// A general purpose register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Register {
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
}

impl Register {
    /// Its value.
    #[inline(always)]
    pub(crate) fn of(self, regs: &bindings::pt_regs) -> usize {
        match self {
            Self::Ax => regs.ax,
            Self::Bx => regs.bx,
            Self::Cx => regs.cx,
            Self::Dx => regs.dx,
            Self::Si => regs.si,
            Self::Di => regs.di,
            Self::Bp => regs.bp,
            Self::R8 => regs.r8,
            Self::R9 => regs.r9,
            Self::R10 => regs.r10,
            Self::R11 => regs.r11,
            Self::R12 => regs.r12,
            Self::R13 => regs.r13,
            Self::R14 => regs.r14,
            Self::R15 => regs.r15,
        }
    }
}
