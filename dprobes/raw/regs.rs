// SPDX-License-Identifier: GPL-2.0

//! Saved registers.
//!
//! Contexts: any, NMI included.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_dprobes_core::Register;
use ferro_sys::bindings;
use kernel::types::NotThreadSafe;

use super::permission::Permission;

/// `struct pt_regs` of the context that was interrupted on this CPU. Several may refer to the same
/// one.
///
/// # Invariants
///
/// The pointer is to saved registers that stay for `'a`, and that only this CPU's program accesses
/// in that time.
pub(crate) struct Regs<'a>(
    NonNull<bindings::pt_regs>,
    PhantomData<&'a ()>,
    NotThreadSafe,
);

impl Regs<'_> {
    /// Wraps a pointer to saved registers; `None` for NULL.
    ///
    /// # Safety
    ///
    /// `regs` are saved registers that stay for as long as this is used. Nothing else accesses them
    /// in that time, except through another `Regs` on this CPU.
    pub(super) unsafe fn from_raw(regs: *mut bindings::pt_regs) -> Option<Self> {
        // INVARIANT: Guaranteed by the caller.
        Some(Self(NonNull::new(regs)?, PhantomData, NotThreadSafe))
    }

    /// Returns another reference to the same registers.
    #[inline(always)]
    pub(crate) fn again(&self) -> Regs<'_> {
        // INVARIANT: The new one stays no longer than this one.
        Regs(self.0, PhantomData, NotThreadSafe)
    }

    /// Returns the registers that the current thread had when it left user space; `None` for a
    /// thread of the kernel.
    pub(crate) fn of_user() -> Option<Self> {
        // SAFETY: No requirement. The function reads fields of the current task.
        let regs = unsafe { bindings::ferro_dprobes_user_regs() };
        // SAFETY: They are at the top of the current thread's stack, and stay as long as it is in
        // the kernel. Other threads access them only while the thread is stopped.
        unsafe { Self::from_raw(regs) }
    }

    /// Returns a pointer to the word that holds a register.
    fn word(&self, register: Register) -> Option<*mut usize> {
        let regs = self.0.as_ptr();
        // SAFETY: By the type invariant these are fields of a live structure.
        Some(unsafe {
            match register {
                Register::Ax => &raw mut (*regs).ax,
                Register::Bx => &raw mut (*regs).bx,
                Register::Cx => &raw mut (*regs).cx,
                Register::Dx => &raw mut (*regs).dx,
                Register::Si => &raw mut (*regs).si,
                Register::Di => &raw mut (*regs).di,
                Register::Bp => &raw mut (*regs).bp,
                Register::Sp => &raw mut (*regs).sp,
                Register::R8 => &raw mut (*regs).r8,
                Register::R9 => &raw mut (*regs).r9,
                Register::R10 => &raw mut (*regs).r10,
                Register::R11 => &raw mut (*regs).r11,
                Register::R12 => &raw mut (*regs).r12,
                Register::R13 => &raw mut (*regs).r13,
                Register::R14 => &raw mut (*regs).r14,
                Register::R15 => &raw mut (*regs).r15,
                Register::Ip => &raw mut (*regs).ip,
                Register::Flags => &raw mut (*regs).flags,
                _ => return None,
            }
        })
    }

    /// Returns the value of a saved register.
    pub(crate) fn get(&self, register: Register) -> Option<u64> {
        match register {
            Register::Cs | Register::Ss => {
                let is_stack = register == Register::Ss;
                // SAFETY: By the type invariant.
                Some(unsafe { bindings::ferro_dprobes_segment(self.0.as_ptr(), is_stack) }.into())
            }
            _ => {
                let word = self.word(register)?;
                // SAFETY: By the type invariant the word is live.
                Some(unsafe { word.read_volatile() } as u64)
            }
        }
    }

    /// Changes a register. Returns false if a program must not change it.
    pub(crate) fn set(&mut self, _permission: &Permission, register: Register, value: u64) -> bool {
        match self.word(register) {
            Some(word) if register.is_writable() => {
                // SAFETY: By the type invariant the word is live. The user who loaded the program
                // has the permission to change registers, and answers for the effects.
                unsafe { word.write_volatile(value as usize) };
                true
            }
            _ => false,
        }
    }
}
