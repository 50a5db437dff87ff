// SPDX-License-Identifier: GPL-2.0

//! The first displaced instruction, as it runs between two handlers: with all registers saved on the stack, which is where
//! handlers see and change them.

use super::displaced::Out;
use super::Displaced;
use super::Reason;
use crate::insn::relocate;
use crate::insn::Flow;
use crate::insn::Insn;
use crate::insn::Register;
use crate::insn::RelocateError;
use crate::insn::Uses;

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u32 = 0x8d5;
/// All of them but AC, with which the kernel may access user memory.
const NOT_AC: u32 = !(1 << 18);

/// Where registers are saved, in bytes from the stack pointer on.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// By their numbers; less than 128. That of the stack pointer is not used.
    pub registers: [u8; 16],
    /// RFLAGS.
    pub flags: u32,
    /// What the stack pointer was there.
    pub stack: u32,
}

/// The most bytes of [`Displaced::first_within`].
pub const MAX_WITHIN: usize = 2 * 15 * MOVE + 64;
const MOVE: usize = 5;

/// A branch to a place that the instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The lower half of the opcode that a conditional one has, none if it always goes there.
    pub condition: Option<u8>,
    /// Where it goes.
    pub target: u64,
}

impl Displaced {
    /// The first instruction, if it is a `jmp` or a jump on a condition of flags.
    pub fn first_branch(&self) -> Option<Branch> {
        let (at, insn) = self.instructions().next()?;
        let condition = match insn.flow() {
            Flow::Jump(_) => None,
            Flow::JumpIf(..) => Some(insn.opcode() & 0xf),
            _ => return None,
        };
        let target = insn.branch_target(at)?;
        Some(Branch { condition, target })
    }

    /// Writes code that compares the flags saved in `frame`, to which the stack pointer points, as a jump on this condition does.
    /// Returns how many bytes of `out` it has, and the condition on which a jump after it is then one on the former.
    pub fn put_condition(
        condition: u8,
        frame: &Frame,
        out: &mut [u8],
    ) -> Result<(usize, u8), Reason> {
        /// jz, jnz
        const ZERO: u8 = 4;
        let mut out = Out::new(out, 0);
        let high = frame.flags.saturating_add(1);
        // The flag that says it alone: OF, CF, ZF, CF or ZF, SF, PF.
        let test = match condition >> 1 & 7 {
            0 => (high, 8),
            1 => (frame.flags, 1),
            2 => (frame.flags, 0x40),
            3 => (frame.flags, 0x41),
            4 => (frame.flags, 0x80),
            5 => (frame.flags, 4),
            // SF is not OF, or ZF as well.
            _ => {
                out.put_flags(frame)?;
                return Ok((out.len(), condition & 0xf));
            }
        };
        let ([a, b, c, d], mask) = (test.0.to_le_bytes(), test.1);
        // testb $mask, flags(%rsp)
        out.put(&[0xf6, 0x84, 0x24, a, b, c, d, mask])?;
        // Not zero is set.
        Ok((out.len(), ZERO | !condition & 1))
    }

    /// Writes code for `to` that executes the first instruction with the registers and flags that are saved in `frame`, to which the
    /// stack pointer points, and saves those that it changes there. Others may be anything afterwards. Returns how many bytes of
    /// `out` it has.
    ///
    /// Fails with [`Reason::Immovable`] if the instruction uses the stack, or is not followed by the next.
    pub fn first_within(&self, frame: &Frame, to: u64, out: &mut [u8]) -> Result<usize, Reason> {
        let (at, insn) = self.instructions().next().ok_or(Reason::NoCode)?;
        let uses = Uses::of(&insn).ok_or(Reason::Immovable)?;
        let mut out = Out::new(out, to);
        let [f0, f1, f2, f3] = frame.flags.to_le_bytes();
        if uses.reads_flags {
            out.put_flags(frame)?;
        }
        out.put_moves(0x8b, uses.reads, frame)?;
        out.put_above(at, &insn, frame.stack)?;
        out.put_moves(0x89, uses.writes, frame)?;
        if uses.writes_flags {
            let [a, b, c, d] = ARITHMETIC.to_le_bytes();
            // pushf; pop %rdx; xor flags(%rsp), %rdx; and $ARITHMETIC, %edx; xor %rdx, flags(%rsp)
            out.put(&[0x9c, 0x5a, 0x48, 0x33, 0x94, 0x24, f0, f1, f2, f3])?;
            out.put(&[0x81, 0xe2, a, b, c, d])?;
            out.put(&[0x48, 0x31, 0x94, 0x24, f0, f1, f2, f3])?;
        }
        Ok(out.len())
    }
}

impl Out<'_> {
    /// Takes the flags from where they are saved.
    fn put_flags(&mut self, frame: &Frame) -> Result<(), Reason> {
        let [f0, f1, f2, f3] = frame.flags.to_le_bytes();
        let [a, b, c, d] = NOT_AC.to_le_bytes();
        // mov flags(%rsp), %rdx; and $~AC, %edx; push %rdx; popf
        self.put(&[0x48, 0x8b, 0x94, 0x24, f0, f1, f2, f3])?;
        self.put(&[0x81, 0xe2, a, b, c, d, 0x52, 0x9d])
    }

    /// Moves these registers from where they are saved, or to there.
    fn put_moves(&mut self, opcode: u8, registers: u16, frame: &Frame) -> Result<(), Reason> {
        for (number, offset) in (0u8..).zip(frame.registers) {
            if registers >> number & 1 != 0 {
                let rex = 0x48 | (number >> 3) << 2;
                let modrm = 0x44 | (number & 7) << 3;
                self.put(&[rex, opcode, modrm, 0x24, offset])?;
            }
        }
        Ok(())
    }

    /// An instruction with the stack pointer `above` bytes lower than it is meant for.
    fn put_above(&mut self, at: u64, insn: &Insn, above: u32) -> Result<(), Reason> {
        let base = insn.memory_operand().and_then(|memory| memory.base);
        if base != Some(Register::RSP) {
            let mut copy = [0; 16];
            let len = relocate(insn, at, self.next(), &mut copy).map_err(|error| match error {
                RelocateError::OutOfReach => Reason::OutOfReach,
                RelocateError::Branch => Reason::Immovable,
            })?;
            return self.put(copy.get(..len).unwrap_or(&copy));
        }
        let displacement = insn.displacement().saturating_add(i64::from(above));
        let displacement = i32::try_from(displacement).map_err(|_| Reason::OutOfReach)?;
        // With a displacement of 32 bits, whatever it had; what follows is the immediate.
        let modrm = insn.modrm_field().at;
        let head = insn
            .bytes()
            .get(..usize::from(modrm))
            .ok_or(Reason::Immovable)?;
        let (Some(fields), Some(sib)) = (insn.modrm(), insn.sib()) else {
            return Err(Reason::Immovable);
        };
        let skipped = modrm
            .saturating_add(2)
            .saturating_add(insn.displacement_field().len);
        let tail = insn
            .bytes()
            .get(usize::from(skipped)..)
            .ok_or(Reason::Immovable)?;
        self.put(head)?;
        self.put(&[fields.0 & 0x3f | 0x80, sib])?;
        self.put(&displacement.to_le_bytes())?;
        self.put(tail)
    }
}
