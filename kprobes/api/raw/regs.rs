// SPDX-License-Identifier: GPL-2.0

//! Registers of probed code. Any handler may read them; changing them requires an [`Alter`].
//!
//! Contexts: any, NMI included.

use ferro_sys::bindings;
use ferro_sys::cpu;
use ferro_sys::trace::stack;
use kernel::prelude::*;

use super::gpr::word;
pub use super::gpr::Register;
use super::gpr::WORDS;
use super::permissions::Alter;
use super::permissions::Destination;

/// `struct pt_regs` of a hit.
#[repr(transparent)]
pub(crate) struct Regs(bindings::pt_regs);

impl Regs {
    /// Wraps the registers of a hit.
    ///
    /// # Safety
    ///
    /// `regs` are the registers of a hit, which no other code uses for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw<'a>(regs: *mut bindings::pt_regs) -> &'a mut Self {
        // SAFETY: The caller guarantees it; the type is transparent.
        unsafe { &mut *regs.cast() }
    }

    /// Returns the instruction pointer.
    #[inline(always)]
    pub(super) fn ip(&self) -> usize {
        self.0.ip
    }

    /// Continues at another address.
    #[inline(always)]
    pub(super) fn go_on_at(&mut self, destination: Destination) {
        self.0.ip = destination.address();
    }

    /// Calls a function with another instruction pointer, and restores it afterwards.
    #[inline(always)]
    pub(super) fn with_ip(&mut self, ip: usize, call: impl FnOnce(&mut Self, usize)) {
        let saved = core::mem::replace(&mut self.0.ip, ip);
        call(self, ip);
        self.0.ip = saved;
    }

    /// Returns the stack pointer.
    #[inline(always)]
    pub(crate) fn sp(&self) -> usize {
        self.0.sp
    }

    /// Returns RFLAGS.
    #[inline(always)]
    pub(crate) fn flags(&self) -> usize {
        self.0.flags
    }

    /// Writes the call chain of `ip` with these registers, innermost first. Returns the number of
    /// addresses.
    pub(crate) fn calls(&self, ip: usize, to: &mut [usize]) -> usize {
        stack::kernel(&self.0, ip, to)
    }

    /// Disables interrupts until the probed code continues.
    #[inline(always)]
    pub(crate) fn hold_irqs(&mut self) {
        // SAFETY: These are the registers of a hit. The code that has called the handler restores
        // them, RFLAGS among them: by `iret` at a breakpoint, else by `popf`.
        unsafe { cpu::leave_irqs_off() };
    }

    /// Returns the value of a register.
    #[inline(always)]
    pub(crate) fn get(&self, register: Register) -> usize {
        register.of(&self.0)
    }

    /// Returns the value of a readable register.
    #[inline(always)]
    pub(crate) fn saved(&self, register: Saved) -> usize {
        register.of(&self.0)
    }

    /// Changes a register.
    #[inline(always)]
    pub(crate) fn set(&mut self, _alter: &Alter, register: Register, value: usize) {
        let regs = &mut self.0;
        *match register {
            Register::Ax => &mut regs.ax,
            Register::Bx => &mut regs.bx,
            Register::Cx => &mut regs.cx,
            Register::Dx => &mut regs.dx,
            Register::Si => &mut regs.si,
            Register::Di => &mut regs.di,
            Register::Bp => &mut regs.bp,
            Register::R8 => &mut regs.r8,
            Register::R9 => &mut regs.r9,
            Register::R10 => &mut regs.r10,
            Register::R11 => &mut regs.r11,
            Register::R12 => &mut regs.r12,
            Register::R13 => &mut regs.r13,
            Register::R14 => &mut regs.r14,
            Register::R15 => &mut regs.r15,
        } = value;
    }
}

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

/// Writes the stack to the log.
pub(crate) fn dump_stack() {
    // SAFETY: The function can be called in any context, and has no arguments.
    unsafe { bindings::dump_stack() };
}
