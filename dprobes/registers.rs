// SPDX-License-Identifier: GPL-2.0

//! Registers at a hit.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_dprobes_core::Register;
use ferro_kprobe::Next;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::Saved;

use crate::raw::permission::Permission;
use crate::raw::regs::Regs;

/// Registers where a point was hit.
pub(crate) trait Registers {
    /// True if no hit of this kind can nest in another one on the same CPU.
    const CANNOT_NEST: bool;

    /// Returns the value of a saved register.
    fn get(&self, register: Register) -> Option<u64>;
    /// Changes a register. Returns false if the register cannot be changed.
    fn set(&mut self, permission: &Permission, register: Register, value: u64) -> bool;
    /// Turns interrupts off until the probed code continues, where possible.
    fn hold_irqs(&mut self) {}
}

impl Registers for Regs<'_> {
    const CANNOT_NEST: bool = false;

    fn get(&self, register: Register) -> Option<u64> {
        Regs::get(self, register)
    }

    fn set(&mut self, permission: &Permission, register: Register, value: u64) -> bool {
        Regs::set(self, permission, register, value)
    }
}

/// Registers at an instruction of the kernel, read only.
pub(crate) struct KernelRegs<'a, 'b>(pub(crate) &'a ProbeCtx<'b>);

/// Registers at an instruction of the kernel.
pub(crate) struct KernelRegsMut<'a, 'b> {
    ctx: &'a mut ProbeCtx<'b>,
    /// Address where the kernel continues.
    pub(crate) next: Next,
}

impl<'a, 'b> KernelRegsMut<'a, 'b> {
    #[inline(always)]
    pub(crate) fn new(ctx: &'a mut ProbeCtx<'b>) -> Self {
        Self {
            ctx,
            next: Next::Continue,
        }
    }
}

/// Returns the general purpose register of the same name in the kprobes API.
const fn general(register: Register) -> Option<ferro_kprobe::Register> {
    use ferro_kprobe::Register as Probed;

    Some(match register {
        Register::Ax => Probed::Ax,
        Register::Bx => Probed::Bx,
        Register::Cx => Probed::Cx,
        Register::Dx => Probed::Dx,
        Register::Si => Probed::Si,
        Register::Di => Probed::Di,
        Register::Bp => Probed::Bp,
        Register::R8 => Probed::R8,
        Register::R9 => Probed::R9,
        Register::R10 => Probed::R10,
        Register::R11 => Probed::R11,
        Register::R12 => Probed::R12,
        Register::R13 => Probed::R13,
        Register::R14 => Probed::R14,
        Register::R15 => Probed::R15,
        _ => return None,
    })
}

/// Registers of the kprobes API by their numbers, so that a hit finds one without a branch for
/// each.
const SAVED: [Option<Saved>; 18] = {
    let mut saved = [None; 18];
    let mut number = 0;
    while number < saved.len() {
        saved[number] = match Register::from_number(number as u8) {
            Some(Register::Sp) => Some(Saved::SP),
            Some(Register::Flags) => Some(Saved::FLAGS),
            Some(register) => match general(register) {
                Some(general) => Some(Saved::general(general)),
                None => None,
            },
            None => None,
        };
        number += 1;
    }
    saved
};

const _: () = assert!(SAVED[Register::Ip.number() as usize].is_none());

impl Registers for KernelRegs<'_, '_> {
    // Kprobes are not hit within a handler of one.
    const CANNOT_NEST: bool = true;

    #[inline(always)]
    fn get(&self, register: Register) -> Option<u64> {
        let value = match SAVED.get(usize::from(register.number()))? {
            Some(saved) => self.0.saved(*saved),
            // Address of the instruction, which may differ from the saved one.
            None => self.0.ip(),
        };
        Some(value as u64)
    }

    fn set(&mut self, _permission: &Permission, _register: Register, _value: u64) -> bool {
        false
    }
}

impl Registers for KernelRegsMut<'_, '_> {
    const CANNOT_NEST: bool = true;

    #[inline(always)]
    fn get(&self, register: Register) -> Option<u64> {
        KernelRegs(self.ctx).get(register)
    }

    fn set(&mut self, permission: &Permission, register: Register, value: u64) -> bool {
        let value = value as usize;
        match (register, general(register)) {
            (_, Some(general)) => self.ctx.set_register(permission.alter(), general, value),
            (Register::Ip, _) => self.next = Next::at(permission.alter(), value),
            _ => return false,
        }
        true
    }

    #[inline(always)]
    fn hold_irqs(&mut self) {
        self.ctx.hold_irqs();
    }
}
