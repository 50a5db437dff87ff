// SPDX-License-Identifier: GPL-2.0

//! Registers, memory, segments, ports and watchpoints; calls of the kernel.

use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::ACCESS_STEPS;
use super::limits::PORT_STEPS;
use super::limits::SYSTEM_STEPS;
use super::limits::VERIFY_MAX;
use super::machine::Machine;
use super::op::Op;
use super::register::Register;

/// Returns the part of a word with a width in bytes.
pub(super) fn narrow(bytes: &mut [u8; 8], width: u8) -> Option<&mut [u8]> {
    bytes.get_mut(..usize::from(width))
}

impl<W: World> Machine<'_, W> {
    /// Reads a register that may belong to the CPU.
    #[inline(never)]
    pub(super) fn system_register(&mut self, insn: &Insn) -> Result<(), Fault> {
        self.charge(SYSTEM_STEPS)?;
        let number = insn.selector();
        let register = Register::from_number(number);
        match register.and_then(|register| self.world.register(register)) {
            Some(value) => self.push(value),
            None => Err(Fault::new(Exception::Operand, number.into())),
        }
    }

    #[inline(never)]
    pub(super) fn user_or_set_register(&mut self, insn: &Insn) -> Result<(), Fault> {
        let number = insn.selector();
        let none = Fault::new(Exception::Operand, number.into());
        let register = Register::from_number(number).ok_or(none)?;
        self.charge(8)?;
        if insn.op == Op::PushU {
            let value = self.world.user_register(register).ok_or(none)?;
            return self.push(value);
        }
        let value = self.pop()?;
        let is_set = match insn.op {
            Op::PopR => self.world.set_register(register, value),
            _ => self.world.set_user_register(register, value),
        };
        match is_set {
            true => Ok(()),
            false => Err(none),
        }
    }

    #[inline(never)]
    pub(super) fn access(&mut self, insn: &Insn) -> Result<(), Fault> {
        let address = self.pop()?;
        let mut bytes = [0; 8];
        let not_there = Fault::new(Exception::Address, address);
        let wrong = Fault::new(Exception::Operand, insn.selector().into());
        self.charge(8)?;
        match insn.op {
            Op::PushMem => {
                let piece = narrow(&mut bytes, insn.selector()).ok_or(wrong)?;
                if !self.world.read(address, piece) {
                    self.charge(ACCESS_STEPS)?;
                    return Err(not_there);
                }
                self.push(u64::from_le_bytes(bytes))
            }
            Op::PopMem => {
                bytes = self.pop()?.to_le_bytes();
                let piece = narrow(&mut bytes, insn.selector()).ok_or(wrong)?;
                if !self.world.write(address, piece) {
                    self.charge(ACCESS_STEPS)?;
                    return Err(not_there);
                }
                Ok(())
            }
            Op::Seg2Lin => {
                let selector = address;
                let offset = self.pop()?;
                let start = u16::try_from(selector)
                    .ok()
                    .and_then(|selector| self.world.segment(selector));
                let start = start.ok_or(Fault::new(Exception::Segment, selector))?;
                self.push(start.wrapping_add(offset))
            }
            op => {
                let len = self.pop()?;
                if len > VERIFY_MAX {
                    return Err(Fault::new(Exception::Operand, len));
                }
                // A page or less at a time.
                self.charge(u32::try_from(len / 64).unwrap_or(u32::MAX))?;
                let can = self.world.can_access(address, len, op == Op::VfyRw);
                if !can {
                    self.charge(ACCESS_STEPS)?;
                }
                self.push(can.into())
            }
        }
    }

    #[inline(never)]
    pub(super) fn port(&mut self, insn: &Insn) -> Result<(), Fault> {
        let port = self.pop()?;
        let width = insn.selector();
        let none = Fault::new(Exception::Operand, port);
        let number = u16::try_from(port).map_err(|_| none)?;
        if !matches!(width, 1 | 2 | 4) {
            return Err(Fault::new(Exception::Operand, width.into()));
        }
        self.charge(PORT_STEPS)?;
        if insn.op == Op::PushIo {
            let value = self.world.port_in(number, width).ok_or(none)?;
            return self.push(value.into());
        }
        let value = self.pop()?;
        // Bits beyond the port's width are cut off.
        let value = (value & u64::from(u32::MAX)) as u32;
        match self.world.port_out(number, width, value) {
            true => Ok(()),
            false => Err(none),
        }
    }

    /// Calls a function that a module has registered.
    #[inline(never)]
    pub(super) fn call_kernel(&mut self, insn: &Insn) -> Result<(), Fault> {
        let number = self.number(insn)?;
        let argument = self.pop()?;
        self.charge(ACCESS_STEPS)?;
        match self.world.call(number, argument) {
            Some(result) => self.push(result),
            None => Err(Fault::new(Exception::Operand, number.into())),
        }
    }

    /// Arms or disarms a watchpoint with an address from a program.
    #[inline(never)]
    pub(super) fn watch(&mut self, insn: &Insn) -> Result<(), Fault> {
        let minor = self.number(insn)?;
        let address = match insn.op {
            Op::Arm => Some(self.pop()?),
            _ => None,
        };
        // A null pointer is 0, where no object is.
        let address = address.filter(|address| *address != 0);
        self.charge(ACCESS_STEPS)?;
        match self.world.arm(minor, address) {
            true => Ok(()),
            false => Err(Fault::new(Exception::Operand, minor.into())),
        }
    }
}
