// SPDX-License-Identifier: GPL-2.0

//! Instructions that a trap executes on the saved registers.
//!
//! The trap must be able to execute the instruction in any context, and completely. So it has no
//! operand in memory, where it could fault, except on the stack, which the trap itself uses, and
//! except the target of an indirect branch, in data that stays mapped.

use ferro_core::exec::Compute;
use ferro_core::exec::Emulation;
use ferro_core::exec::Fault;
use ferro_core::exec::Machine;
use ferro_core::exec::Probe;
use ferro_core::exec::Unprobeable;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;

use crate::Refusal;

/// An instruction that the trap executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executable {
    /// A branch or a NOP.
    Branch(Emulation),
    /// An instruction with registers, or a push or pop, and its length.
    Compute(Compute, u8),
}

impl Executable {
    /// Returns how the trap executes an instruction at `address`.
    ///
    /// Errors: [`Refusal::NotExecutable`]; [`Refusal::LandingPad`] and [`Refusal::Bug`] for the
    /// instructions that have to stay for other reasons.
    pub fn of(insn: &Insn, address: u64) -> Result<Self, Refusal> {
        match Probe::of(insn) {
            Probe::Unprobeable(Unprobeable::LandingPad) => return Err(Refusal::LandingPad),
            Probe::Unprobeable(Unprobeable::Undefined) => return Err(Refusal::Bug),
            Probe::Unprobeable(_) => return Err(Refusal::NotExecutable),
            _ if insn
                .bytes()
                .first()
                .is_some_and(|byte| is_smp_prefix(*byte)) =>
            {
                return Err(Refusal::NotExecutable)
            }
            // Not those that change the interrupt flag, which in the trap take effect too early.
            Probe::Emulate(emulation) if insn.flow() != Flow::Next || is_nop(insn) => {
                return Ok(Self::Branch(emulation))
            }
            _ => {}
        }
        match Compute::of(insn, address) {
            // At most 15 bytes.
            Some(compute) if !compute.has_operand_in_memory() => {
                Ok(Self::Compute(compute, insn.len() as u8))
            }
            _ => Err(Refusal::NotExecutable),
        }
    }

    /// Executes the instruction as if it were at `address`. Returns the address of the next one.
    ///
    /// If an access faults, nothing has been changed.
    #[inline]
    pub fn run<M: Machine>(&self, address: u64, machine: &mut M) -> Result<u64, Fault> {
        match self {
            Self::Branch(emulation) => emulation.run(address, machine),
            Self::Compute(compute, len) => {
                compute.run(machine)?;
                Ok(address.wrapping_add(u64::from(*len)))
            }
        }
    }
}

/// Returns true for a NOP.
fn is_nop(insn: &Insn) -> bool {
    matches!((insn.map(), insn.opcode()), (0, 0x90) | (1, 0x1f))
}

/// Returns true for the prefix `lock`, and for the one with which the kernel replaces it on a
/// machine with a single CPU.
fn is_smp_prefix(byte: u8) -> bool {
    matches!(byte, 0xf0 | 0x3e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<Executable, Refusal> {
        let insn = Insn::decode(bytes).unwrap();
        assert_eq!(insn.bytes(), bytes);
        Executable::of(&insn, 0xffff_ffff_8100_0000)
    }

    #[test]
    fn executable() {
        for bytes in [
            &[0x90][..],
            &[0x0f, 0x1f, 0x44, 0, 0],
            &[0x66, 0x90],
            &[0xeb, 5],
            &[0xe9, 1, 2, 3, 4],
            &[0x74, 0xf0],
            &[0x0f, 0x85, 1, 0, 0, 0],
            &[0xe3, 2],
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0xff, 0x24, 0xc5, 0, 0, 0, 0x81],
            &[0xc3],
            &[0xc2, 8, 0],
            &[0x55],
            &[0x41, 0x57],
            &[0x5d],
            &[0x48, 0x89, 0xe5],
            &[0x31, 0xc0],
            &[0x85, 0xc0],
            &[0x48, 0x83, 0xec, 0x10],
            &[0x48, 0x8d, 0x45, 8],
            &[0xb8, 1, 0, 0, 0],
        ] {
            let found = of(bytes);
            assert!(found.is_ok(), "{bytes:x?}: {found:?}");
        }
    }

    #[test]
    fn not_executable() {
        for (bytes, refusal) in [
            (&[0xf3, 0x0f, 0x1e, 0xfa][..], Refusal::LandingPad),
            (&[0x0f, 0x0b], Refusal::Bug),
            (&[0x67, 0x0f, 0xb9, 0x40, 0x0d], Refusal::Bug),
            (&[0xcc], Refusal::NotExecutable),
            (&[0xf4], Refusal::NotExecutable),
            // A push of a constant is none of Compute.
            (&[0x6a, 1], Refusal::NotExecutable),
            (&[0xfa], Refusal::NotExecutable),
            (&[0xfb], Refusal::NotExecutable),
            (&[0x9c], Refusal::NotExecutable),
            (&[0x9d], Refusal::NotExecutable),
            (&[0xf3, 0x90], Refusal::NotExecutable),
            (&[0x48, 0x8b, 0x07], Refusal::NotExecutable),
            (&[0x48, 0x89, 0x07], Refusal::NotExecutable),
            (&[0x48, 0x3b, 0x07], Refusal::NotExecutable),
            (&[0xf0, 0x48, 0x01, 0x07], Refusal::NotExecutable),
            (&[0x3e, 0xff, 0xe0], Refusal::NotExecutable),
            (&[0x3e, 0x74, 0x10], Refusal::NotExecutable),
            (&[0x66, 0x01, 0xc8], Refusal::NotExecutable),
            (&[0x48, 0xc1, 0xe0, 4], Refusal::NotExecutable),
            (&[0xff, 0xc0], Refusal::NotExecutable),
            (&[0xf3, 0xa4], Refusal::NotExecutable),
            (&[0x0f, 0x05], Refusal::NotExecutable),
        ] {
            assert_eq!(of(bytes), Err(refusal), "{bytes:x?}");
        }
    }
}
