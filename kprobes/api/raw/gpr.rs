// SPDX-License-Identifier: GPL-2.0

//! General purpose registers in a `struct pt_regs`.
//!
//! Contexts: any, NMI included.

use core::mem::offset_of;

use ferro_sys::bindings;

/// General purpose register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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

/// Makes an array of field offsets.
macro_rules! places {
    ($($field:ident),*) => { [$(offset_of!(bindings::pt_regs, $field)),*] };
}

/// Offsets of the registers in the order of the type, then of the stack pointer and RFLAGS. A table
/// lookup is cheaper in a hit than a `match`.
const PLACES: [usize; 17] =
    places![ax, bx, cx, dx, si, di, bp, r8, r9, r10, r11, r12, r13, r14, r15, sp, flags];

/// Number of registers, including those two.
pub(crate) const WORDS: usize = PLACES.len();

impl Register {
    /// Returns its value.
    #[inline(always)]
    pub(crate) fn of(self, regs: &bindings::pt_regs) -> usize {
        const { assert!((Self::R15 as usize) < WORDS) };
        word(regs, self as usize)
    }
}

/// Reads a register. `number` is its index in [`PLACES`], less than [`WORDS`].
#[inline(always)]
pub(crate) fn word(regs: &bindings::pt_regs, number: usize) -> usize {
    let regs = (&raw const *regs).cast::<usize>();
    // SAFETY: Each offset in the table is that of a word in the structure.
    unsafe { regs.byte_add(PLACES[number]).read() }
}
