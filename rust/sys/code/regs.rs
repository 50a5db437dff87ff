// SPDX-License-Identifier: GPL-2.0

//! Registers of interrupted kernel code, as saved by a trap or an ftrace site.
//!
//! Contexts: any, NMI included.

use crate::bindings;

/// RFLAGS.IF.
const IF: usize = 1 << 9;

/// `struct pt_regs` of the kernel code that this context interrupted.
///
/// # Invariants
///
/// Registers of kernel code, owned by this context: it may read them, and its changes take effect
/// when it returns.
#[repr(transparent)]
pub struct Regs(bindings::pt_regs);

impl Regs {
    /// Returns the registers of kernel code, or `None` if they belong to user space.
    ///
    /// # Safety
    ///
    /// `regs` are the registers of an `int3`, of a fault, of an ftrace site, or of code that has
    /// saved all of them and continues with them; this context alone uses them for `'a`.
    #[inline(always)]
    pub unsafe fn from_raw<'a>(regs: *mut bindings::pt_regs) -> Option<&'a mut Self> {
        // SAFETY: The caller guarantees that they exist and belong to this context for `'a`; the
        // type is transparent.
        let regs = unsafe { &mut *regs.cast::<Self>() };
        // SAFETY: All variants of the union are plain words of this size.
        let cs = unsafe { regs.0.__bindgen_anon_1.cs };
        // INVARIANT: The privilege level is the kernel's.
        (cs & 3 == 0).then_some(regs)
    }

    /// Returns the registers at an ftrace site, which always belong to kernel code.
    ///
    /// # Safety
    ///
    /// As for [`Regs::from_raw`].
    #[inline(always)]
    pub unsafe fn at_site<'a>(regs: *mut bindings::pt_regs) -> &'a mut Self {
        // INVARIANT: User code has no ftrace sites.
        // SAFETY: The caller guarantees that they exist and belong to this context for `'a`; the
        // type is transparent.
        unsafe { &mut *regs.cast::<Self>() }
    }

    /// Returns the C pointer, for handlers in C.
    #[inline(always)]
    pub fn as_ptr(&mut self) -> *mut bindings::pt_regs {
        &raw mut self.0
    }

    /// Returns the address where execution continues.
    #[inline(always)]
    pub fn ip(&self) -> usize {
        self.0.ip
    }

    /// Sets the address where execution continues.
    #[inline(always)]
    pub fn set_ip(&mut self, ip: usize) {
        self.0.ip = ip;
    }

    /// Returns the stack pointer.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        self.0.sp
    }

    /// Disables interrupts in the interrupted code. Returns the old RFLAGS.IF.
    #[inline(always)]
    pub fn mask_interrupts(&mut self) -> usize {
        let was = self.0.flags & IF;
        self.0.flags &= !IF;
        was
    }

    /// Undoes [`Regs::mask_interrupts`].
    #[inline(always)]
    pub fn unmask_interrupts(&mut self, was: usize) {
        self.0.flags |= was & IF;
    }
}
