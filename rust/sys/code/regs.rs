// SPDX-License-Identifier: GPL-2.0

//! The registers of interrupted kernel code, as a trap or an ftrace site saved them.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

/// RFLAGS.IF.
const IF: usize = 1 << 9;

/// `struct pt_regs` of the kernel code that this context interrupted.
///
/// # Invariants
///
/// Registers of kernel code, which are this context's: it may read them, and what it writes takes effect when it returns.
#[repr(transparent)]
pub struct Regs(bindings::pt_regs);

impl Regs {
    /// The registers of kernel code, or `None` if they are a user's.
    ///
    /// # Safety
    ///
    /// `regs` are the registers of an `int3`, of a fault, of an ftrace site, or of code that has saved all of them and goes on with
    /// them; nobody else uses them for `'a`.
    #[inline(always)]
    pub unsafe fn from_raw<'a>(regs: *mut bindings::pt_regs) -> Option<&'a mut Self> {
        // SAFETY: The caller guarantees that they are there and this context's for `'a`; the type is transparent.
        let regs = unsafe { &mut *regs.cast::<Self>() };
        // SAFETY: All variants of the union are plain words of this size.
        let cs = unsafe { regs.0.__bindgen_anon_1.cs };
        // INVARIANT: The privilege level is the kernel's.
        (cs & 3 == 0).then_some(regs)
    }

    /// The registers at an ftrace site, which are always those of kernel code.
    ///
    /// # Safety
    ///
    /// As for [`Regs::from_raw`].
    #[inline(always)]
    pub unsafe fn at_site<'a>(regs: *mut bindings::pt_regs) -> &'a mut Self {
        // INVARIANT: User code has no ftrace sites.
        // SAFETY: The caller guarantees that they are there and this context's for `'a`; the type is transparent.
        unsafe { &mut *regs.cast::<Self>() }
    }

    /// For handlers in C.
    #[inline(always)]
    pub fn as_ptr(&mut self) -> *mut bindings::pt_regs {
        &raw mut self.0
    }

    /// Where execution goes on.
    #[inline(always)]
    pub fn ip(&self) -> usize {
        self.0.ip
    }

    /// Changes where execution goes on.
    #[inline(always)]
    pub fn set_ip(&mut self, ip: usize) {
        self.0.ip = ip;
    }

    /// The stack pointer.
    #[inline(always)]
    pub fn sp(&self) -> usize {
        self.0.sp
    }

    /// Turns interrupts off in what is interrupted. Returns RFLAGS.IF as it was.
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
