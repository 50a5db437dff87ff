// SPDX-License-Identifier: GPL-2.0

//! Emulation of instructions by changes of the registers.
//!
//! The emulation follows the CPU, also where mainline's kprobes (`arch/x86/kernel/kprobes/core.c`
//! of 7.3) differ. `loop` tests the counter after the decrement, not before. `ret imm16` removes
//! the bytes from the stack. `lret` is not a near return (it is refused). `call *%rsp` jumps to the
//! stack pointer before the push. `popf` does not change the flags that it cannot change. `pushf`
//! stores neither RF nor VM.

use super::machine::pop;
use super::machine::push;
use super::machine::Fault;
use super::machine::Machine;
use crate::insn::Condition;
use crate::insn::Encoding;
use crate::insn::Flow;
use crate::insn::Insn;
use crate::insn::LoopKind;
use crate::insn::Register;
use crate::insn::Repeat;
use crate::insn::Target;

/// Zero flag.
const ZF: u64 = 1 << 6;
/// Interrupt enable flag.
const IF: u64 = 1 << 9;
/// Resume flag.
const RF: u64 = 1 << 16;
/// Virtual-8086 mode.
const VM: u64 = 1 << 17;
/// Flags that `popfq` writes at privilege level 0: CF, PF, AF, ZF, SF, TF, IF, DF, OF, IOPL, NT, AC
/// and ID.
const POPPED: u64 = 0x24_7fd5;

/// An instruction that can be executed by changing the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    len: u8,
    operation: Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Nothing,
    DisableInterrupts,
    EnableInterrupts,
    PushFlags,
    PopFlags,
    Jump(Target),
    JumpIf(Condition, i64),
    Loop {
        kind: LoopKind,
        /// Mask of the counter's bits.
        mask: u64,
        distance: i64,
    },
    Call(Target),
    Return(u16),
}

impl Emulation {
    /// Returns the emulation of an instruction, if it has one.
    ///
    /// The emulation is for kernel code: `cli`, `sti` and `popf` behave as at privilege level 0.
    pub(super) fn of(insn: &Insn) -> Option<Self> {
        let operation = match insn.flow() {
            Flow::Next => Self::of_plain(insn)?,
            Flow::Jump(target) => Operation::Jump(reachable(target)?),
            Flow::Call(target) => Operation::Call(reachable(target)?),
            Flow::JumpIf(condition, distance) => Operation::JumpIf(condition, distance),
            Flow::Loop(kind, distance) => Operation::Loop {
                kind,
                mask: insn.truncated(u64::MAX),
                distance,
            },
            Flow::Return(bytes) => Operation::Return(bytes),
            _ => return None,
        };
        Some(Self {
            // At most 15.
            len: insn.len() as u8,
            operation,
        })
    }

    /// Handles instructions that continue with the next one.
    fn of_plain(insn: &Insn) -> Option<Operation> {
        let prefixes = insn.prefixes();
        if insn.encoding() != Encoding::Legacy || prefixes.lock {
            return None;
        }
        Some(match (insn.map(), insn.opcode()) {
            // With REX.B this is `xchg`, with F3 `pause`.
            (0, 0x90)
                if insn.base_register(0) == Register::RAX
                    && prefixes.repeat != Some(Repeat::F3) =>
            {
                Operation::Nothing
            }
            (1, 0x1f) => Operation::Nothing,
            // The 16-bit forms are left to a copy.
            (0, 0x9c) if !insn.is_word() => Operation::PushFlags,
            (0, 0x9d) if !insn.is_word() => Operation::PopFlags,
            (0, 0xfa) => Operation::DisableInterrupts,
            (0, 0xfb) => Operation::EnableInterrupts,
            _ => return None,
        })
    }

    /// Returns the destination of an instruction at `address` that changes only the instruction
    /// pointer.
    pub fn destination(&self, address: u64) -> Option<u64> {
        let next = address.wrapping_add(u64::from(self.len));
        match self.operation {
            Operation::Nothing => Some(next),
            Operation::Jump(Target::Relative(distance)) => Some(next.wrapping_add_signed(distance)),
            Operation::Jump(Target::Absolute(target)) => Some(target),
            _ => None,
        }
    }

    /// Executes the instruction as if it were at `address`. Returns the address of the next one.
    ///
    /// If an access faults, nothing has been changed.
    pub fn run<M: Machine>(&self, address: u64, machine: &mut M) -> Result<u64, Fault> {
        let next = address.wrapping_add(u64::from(self.len));
        let flags = machine.flags();
        let mut taken = None;
        match self.operation {
            Operation::Nothing => (),
            Operation::DisableInterrupts => machine.set_flags(flags & !IF),
            Operation::EnableInterrupts => machine.set_flags(flags | IF),
            Operation::PushFlags => push(machine, flags & !(RF | VM))?,
            Operation::PopFlags => {
                let popped = pop(machine, 0)?;
                machine.set_flags((flags & !(POPPED | RF)) | (popped & POPPED));
            }
            Operation::Jump(target) => return target_of(target, next, machine),
            Operation::JumpIf(condition, distance) => {
                taken = condition.holds(flags).then_some(distance);
            }
            Operation::Loop {
                kind,
                mask,
                distance,
            } => taken = count(kind, mask, machine).then_some(distance),
            Operation::Call(target) => {
                // Before the push, since the operand may be relative to the stack pointer.
                let target = target_of(target, next, machine)?;
                push(machine, next)?;
                return Ok(target);
            }
            Operation::Return(bytes) => return pop(machine, bytes),
        }
        Ok(next.wrapping_add_signed(taken.unwrap_or(0)))
    }
}

/// Returns a target that the emulation can calculate: without a segment base, and without the
/// registers of APX.
fn reachable(target: Target) -> Option<Target> {
    let saved = |register: Option<Register>| !register.is_some_and(Register::is_extended);
    match target {
        Target::Memory(m) => {
            let index = m.index.map(|(register, _)| register);
            m.segment.is_none() && saved(m.base) && saved(index)
        }
        Target::Register(register) => saved(Some(register)),
        Target::Relative(_) | Target::Absolute(_) => true,
    }
    .then_some(target)
}

/// Returns the destination of a branch.
fn target_of<M: Machine>(target: Target, next: u64, machine: &mut M) -> Result<u64, Fault> {
    match target {
        Target::Relative(distance) => Ok(next.wrapping_add_signed(distance)),
        Target::Absolute(target) => Ok(target),
        Target::Register(register) => Ok(machine.register(register)),
        Target::Memory(memory) => {
            let address = memory.address(next, |register| machine.register(register));
            machine.read(address, true)
        }
    }
}

/// Counts as a loop instruction does. Returns true if it jumps.
fn count<M: Machine>(kind: LoopKind, mask: u64, machine: &mut M) -> bool {
    let counter = machine.register(Register::RCX) & mask;
    if kind == LoopKind::CounterIsZero {
        return counter == 0;
    }
    // A counter of 32 bits clears the upper half, as any write to a 32-bit register does.
    let counter = counter.wrapping_sub(1) & mask;
    machine.set_register(Register::RCX, counter);
    let zero = machine.flags() & ZF != 0;
    let wanted = match kind {
        LoopKind::NotEqual => !zero,
        LoopKind::Equal => zero,
        LoopKind::Always | LoopKind::CounterIsZero => true,
    };
    counter != 0 && wanted
}
