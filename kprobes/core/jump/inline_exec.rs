// SPDX-License-Identifier: GPL-2.0

//! The first displaced instruction between two handlers. All registers are saved on the stack,
//! where handlers read and change them.

use super::displaced::Out;
use super::Displaced;
use super::Reason;
use crate::relocate;
use crate::RelocateError;
use crate::Uses;
use ferro_core::insn::Encoding;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Register;

/// Change of the stack pointer by a push, in bytes.
const WORD: i8 = 8;
/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u32 = 0x8d5;
/// Interrupt flag. A handler may have cleared it, and no first instruction stores it.
const IF: u32 = 1 << 9;
/// Alignment check: with SMAP the right to access user memory.
const AC: u32 = 1 << 18;
/// Clears and sets AC.
const CLAC: [u8; 3] = [0x0f, 0x01, 0xca];
const STAC: [u8; 3] = [0x0f, 0x01, 0xcb];

/// Offsets of saved registers, in bytes from the stack pointer.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// By register number; less than 128, except for the stack pointer.
    pub registers: [u8; 16],
    /// RFLAGS.
    pub flags: u32,
    /// The probed code's stack pointer, in bytes from the present one.
    pub stack: u32,
    /// True if the CPU has SMAP: AC is clear while handlers run, and an instruction that accesses
    /// memory needs the AC of the probed code.
    pub smap: bool,
}

/// Maximum number of bytes of [`Displaced::first_within`].
pub const MAX_WITHIN: usize = 2 * 15 * MOVE + 64;
const MOVE: usize = 5;

/// A branch to a destination in the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Lower half of the opcode of a conditional branch, or `None`.
    pub condition: Option<u8>,
    /// Destination.
    pub target: u64,
}

impl Displaced {
    /// Returns the first instruction, if it is a `jmp` or a conditional jump on flags.
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

    /// Writes code that tests the flags saved in `frame`, to which the stack pointer points, as a
    /// jump on this condition does. Returns the number of bytes in `out`, and the condition for a
    /// jump after that code.
    pub fn put_condition(
        condition: u8,
        frame: &Frame,
        out: &mut [u8],
    ) -> Result<(usize, u8), Reason> {
        /// jz, jnz
        const ZERO: u8 = 4;
        let mut out = Out::new(out, 0);
        let high = frame.flags.saturating_add(1);
        // The flag that decides alone: OF, CF, ZF, CF or ZF, SF, PF.
        let test = match condition >> 1 & 7 {
            0 => (high, 8),
            1 => (frame.flags, 1),
            2 => (frame.flags, 0x40),
            3 => (frame.flags, 0x41),
            4 => (frame.flags, 0x80),
            5 => (frame.flags, 4),
            // SF is not OF, or ZF as well.
            _ => {
                out.put_flags(frame, !(AC | IF))?;
                return Ok((out.len(), condition & 0xf));
            }
        };
        let ([a, b, c, d], mask) = (test.0.to_le_bytes(), test.1);
        // testb $mask, flags(%rsp)
        out.put(&[0xf6, 0x84, 0x24, a, b, c, d, mask])?;
        // Not zero means set.
        Ok((out.len(), ZERO | !condition & 1))
    }

    /// Writes code for `to` that executes the first instruction with the registers and flags saved
    /// in `frame`, to which the stack pointer points, and saves the changed ones there. Other
    /// registers are undefined afterwards. The word below the saved stack pointer belongs to the
    /// frame, and is unused.
    ///
    /// Errors: [`Reason::Immovable`] if the instruction uses the stack except to push or pop a
    /// register, or to push a constant, or is not followed by the next instruction.
    pub fn first_within(&self, frame: &Frame, to: u64, out: &mut [u8]) -> Result<Within, Reason> {
        let (at, insn) = self.instructions().next().ok_or(Reason::NoCode)?;
        let mut out = Out::new(out, to);
        if let Some(what) = pushes_or_pops(&insn) {
            return out.put_push_or_pop(&what, frame);
        }
        let uses = Uses::of(&insn).ok_or(Reason::Immovable)?;
        let [f0, f1, f2, f3] = frame.flags.to_le_bytes();
        let accesses = frame.smap && may_access(&insn);
        match (uses.reads_flags, accesses) {
            (true, true) => out.put_flags(frame, !IF)?,
            (true, false) => out.put_flags(frame, !(AC | IF))?,
            (false, true) => out.put_stac(frame)?,
            (false, false) => (),
        }
        out.put_moves(0x8b, uses.reads, frame)?;
        let copy = out.len();
        out.put_above(at, &insn, frame.stack)?;
        if accesses {
            out.put(&CLAC)?;
        }
        out.put_moves(0x89, uses.writes, frame)?;
        if uses.writes_flags {
            let [a, b, c, d] = ARITHMETIC.to_le_bytes();
            // pushf; pop %rdx; xor flags(%rsp), %rdx; and $ARITHMETIC, %edx; xor %rdx, flags(%rsp)
            out.put(&[0x9c, 0x5a, 0x48, 0x33, 0x94, 0x24, f0, f1, f2, f3])?;
            out.put(&[0x81, 0xe2, a, b, c, d])?;
            out.put(&[0x48, 0x31, 0x94, 0x24, f0, f1, f2, f3])?;
        }
        Ok(Within {
            len: out.len(),
            copy: Some(copy),
            stack_moves: 0,
        })
    }
}

/// Returns false if the instruction surely accesses no memory.
fn may_access(insn: &Insn) -> bool {
    match insn.memory_operand() {
        // lea
        Some(_) => insn.map() != 0 || insn.opcode() != 0x8d,
        // Strings, movabs and the like have no ModRM.
        None => !insn.cannot_fault(),
    }
}

/// Description of the code from [`Displaced::first_within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within {
    /// Number of bytes.
    pub len: usize,
    /// Offset of the copy of the instruction, or `None` for a push or a pop, for which other code
    /// stands.
    pub copy: Option<usize>,
    /// Change of the stack pointer by the instruction, in bytes; the frame has it, too.
    pub stack_moves: i8,
}

/// Operation on the stack.
enum OnStack {
    /// Pushes the register of this number.
    Push(u8),
    /// Pushes this constant.
    PushConstant(i32),
    /// Pops the register.
    Pop(u8),
}

/// Returns the operation if it pushes a constant, or pushes or pops a whole register other than the
/// stack pointer.
fn pushes_or_pops(insn: &Insn) -> Option<OnStack> {
    let is_plain = insn.encoding() == Encoding::Legacy && insn.map() == 0;
    // With LOCK they are undefined.
    if !is_plain || insn.is_word() || insn.prefixes().lock {
        return None;
    }
    let register = insn.base_register(insn.opcode());
    match insn.opcode() {
        0x68 | 0x6a => i32::try_from(insn.immediate())
            .ok()
            .map(OnStack::PushConstant),
        0x50..=0x57 if register != Register::RSP => Some(OnStack::Push(register.number())),
        0x58..=0x5f if register != Register::RSP => Some(OnStack::Pop(register.number())),
        _ => None,
    }
}

impl Out<'_> {
    /// Loads the flags of a mask from their saved values.
    fn put_flags(&mut self, frame: &Frame, mask: u32) -> Result<(), Reason> {
        let [f0, f1, f2, f3] = frame.flags.to_le_bytes();
        let [a, b, c, d] = mask.to_le_bytes();
        // mov flags(%rsp), %rdx; and $mask, %edx; push %rdx; popf
        self.put(&[0x48, 0x8b, 0x94, 0x24, f0, f1, f2, f3])?;
        self.put(&[0x81, 0xe2, a, b, c, d, 0x52, 0x9d])
    }

    /// Sets AC if it is set in the saved flags.
    fn put_stac(&mut self, frame: &Frame) -> Result<(), Reason> {
        let [_, _, ac, _] = AC.to_le_bytes();
        let [a, b, c, d] = frame.flags.saturating_add(2).to_le_bytes();
        // testb $AC, flags(%rsp); jz
        self.put(&[0xf6, 0x84, 0x24, a, b, c, d, ac, 0x74, 3])?;
        self.put(&STAC)
    }

    fn put_push_or_pop(&mut self, what: &OnStack, frame: &Frame) -> Result<Within, Reason> {
        let below = frame.stack.saturating_add_signed((-WORD).into());
        let stack_moves = match what {
            OnStack::Push(register) => {
                self.put_moves(0x8b, 1 << (register & 15), frame)?;
                self.put_stack(0x89, *register, below)?;
                -WORD
            }
            OnStack::PushConstant(value) => {
                // movq $value, below(%rsp)
                self.put(&[0x48, 0xc7, 0x84, 0x24])?;
                self.put(&below.to_le_bytes())?;
                self.put(&value.to_le_bytes())?;
                -WORD
            }
            OnStack::Pop(register) => {
                self.put_stack(0x8b, *register, frame.stack)?;
                self.put_moves(0x89, 1 << (register & 15), frame)?;
                WORD
            }
        };
        // addq $stack_moves, sp(%rsp)
        let [_, _, _, _, sp, ..] = frame.registers;
        self.put(&[0x48, 0x83, 0x84, 0x24, sp, 0, 0, 0])?;
        self.put(&stack_moves.to_le_bytes())?;
        Ok(Within {
            len: self.len(),
            copy: None,
            stack_moves,
        })
    }

    /// Moves a register to this offset of the stack, or from there.
    fn put_stack(&mut self, opcode: u8, register: u8, offset: u32) -> Result<(), Reason> {
        let rex = 0x48 | (register >> 3) << 2;
        self.put(&[rex, opcode, 0x84 | (register & 7) << 3, 0x24])?;
        self.put(&offset.to_le_bytes())
    }

    /// Loads these registers from their saved values, or saves them.
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

    /// Writes an instruction that expects the stack pointer `above` bytes higher.
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
        // Uses a displacement of 32 bits in any case; the immediate follows.
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
