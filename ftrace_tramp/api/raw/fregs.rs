// SPDX-License-Identifier: GPL-2.0

//! The registers of a call that ftrace reports.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

use crate::call::REGISTER_ARGUMENTS;

/// `struct ftrace_regs` of a call: a `struct pt_regs` (`filter.c` checks it), of which the registers of arguments are written,
/// and all if `cs` is not 0.
#[repr(transparent)]
pub(crate) struct Fregs(bindings::pt_regs);

impl Fregs {
    /// # Safety
    ///
    /// `fregs` are those of a call, which nobody writes for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw<'a>(fregs: *const bindings::ftrace_regs) -> &'a Self {
        // SAFETY: The caller guarantees it; the type is transparent.
        unsafe { &*fregs.cast() }
    }

    /// What integers and pointers are passed in, in order.
    #[inline(always)]
    pub(crate) fn arguments(&self) -> [usize; REGISTER_ARGUMENTS] {
        let regs = &self.0;
        [regs.di, regs.si, regs.dx, regs.cx, regs.r8, regs.r9]
    }

    /// All registers, if they were saved: `cs` says so, as it does for `arch_ftrace_get_regs()`.
    #[inline]
    pub(crate) fn all(&self) -> Option<&bindings::pt_regs> {
        // SAFETY: All of the structure is memory of the stack, and any bits are a number.
        let cs = unsafe { (&raw const self.0.__bindgen_anon_1).cast::<u16>().read() };
        (cs != 0).then_some(&self.0)
    }
}
