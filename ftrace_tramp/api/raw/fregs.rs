// SPDX-License-Identifier: GPL-2.0

//! Registers of a call that ftrace reports.
//!
//! Contexts: any, NMI included.

use ferro_sys::bindings;

/// Number of arguments that are passed in registers.
pub const REGISTER_ARGUMENTS: usize = 6;

/// `struct ftrace_regs` of a call: a `struct pt_regs` (`tracer.c` checks this). Only the argument
/// registers are written, or all registers if `cs` is not 0.
#[repr(transparent)]
pub(crate) struct Fregs(bindings::pt_regs);

impl Fregs {
    /// Wraps the registers of a call.
    ///
    /// # Safety
    ///
    /// `fregs` are the registers of a call, which no other code writes for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw<'a>(fregs: *const bindings::ftrace_regs) -> &'a Self {
        // SAFETY: The caller guarantees it; the type is transparent.
        unsafe { &*fregs.cast() }
    }

    /// Returns the values of the registers that pass integers and pointers, in order.
    #[inline(always)]
    pub(crate) fn arguments(&self) -> [usize; REGISTER_ARGUMENTS] {
        let regs = &self.0;
        [regs.di, regs.si, regs.dx, regs.cx, regs.r8, regs.r9]
    }

    /// Returns all registers, if they were saved: `cs` tells, as in `arch_ftrace_get_regs()`.
    #[inline]
    pub(crate) fn all(&self) -> Option<&bindings::pt_regs> {
        // SAFETY: All of the structure is memory of the stack, and any bits are a number.
        let cs = unsafe { (&raw const self.0.__bindgen_anon_1).cast::<u16>().read() };
        (cs != 0).then_some(&self.0)
    }
}
