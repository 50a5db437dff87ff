// SPDX-License-Identifier: GPL-2.0

//! Stubs that execute an instruction on registers in memory: in a trap, on the saved ones.
//!
//! [`Compute`](super::Compute) does so for common instructions, without code of their own. This is
//! for other instructions whose registers [`Uses`] knows.

use super::relocate;
use super::RelocateError;
use super::Uses;
use ferro_core::insn::Insn;
use ferro_core::insn::Register;

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u32 = 0x8d5;
const RSP: u8 = 4;
const RDI: u8 = 7;
/// Number of bytes below the stack pointer that are left to a copy, because they contain the trap's
/// own frames.
const BELOW: u32 = 4096;

const LOAD: u8 = 0x8b;
const STORE: u8 = 0x89;
const JNE: u8 = 0x75;
const JAE: u8 = 0x73;

/// Offsets of the registers, in bytes from the address that the stub gets.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    /// By register number, including the stack pointer.
    pub registers: [u8; 16],
    /// RFLAGS.
    pub flags: u32,
}

/// Other parameters of the code.
#[derive(Clone, Copy, Debug)]
pub struct Platform {
    /// True if a call of the code needs a landing pad.
    pub landing_pad: bool,
    /// Number of effective bits of addresses, 48 or 57: kernel addresses have all bits from the
    /// last of these on set.
    pub address_bits: u8,
}

/// Maximum number of bytes of [`write_apart`].
pub const MAX_APART: usize = 256;

/// Description of the code from [`write_apart`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Number of bytes.
    pub len: usize,
    /// Offset of the copy of the instruction, if it accesses memory.
    pub access: Option<usize>,
    /// Offset at which execution continues after a fault of that copy.
    pub failed: usize,
}

/// Writes a stub for `to` that executes the instruction of `at` on registers that are saved at rdi.
/// The stub ends with a jump to `done`, with eax 0, or 1 if it has not executed the instruction. It
/// refuses operands that are not kernel memory, that may be on the stack below the stack pointer,
/// or that fault. All registers except rsp are undefined afterwards.
///
/// The stub loads and saves only the arithmetic flags of RFLAGS: interrupts stay as they are.
///
/// Returns `None` if the instruction must not be executed in this way, or does not reach its
/// operand from there.
pub fn write_apart(
    insn: &Insn,
    at: u64,
    saved: &Saved,
    platform: Platform,
    to: u64,
    done: u64,
    out: &mut [u8],
) -> Option<Apart> {
    let uses = Uses::of(insn)?;
    let memory = insn.memory_operand();
    // With another stack pointer, or with an address that is not the accessed one.
    let is_elsewhere =
        |base: Option<Register>| base == Some(Register::RSP) || is_string_of_bits(insn);
    if memory.is_some_and(|memory| is_elsewhere(memory.base) || is_lea(insn)) {
        return None;
    }
    let used = uses.reads | uses.writes | 1 << RSP;
    let mut free = [RDI, 0, 1, 2, 3, 5, 6, 8, 9, 10, 11]
        .into_iter()
        .filter(|n| used >> n & 1 == 0);
    let (base, scratch) = (free.next()?, free.next()?);
    let mut code = Writer {
        out,
        len: 0,
        to,
        base,
        saved,
    };
    if platform.landing_pad {
        code.put(&[0xf3, 0x0f, 0x1e, 0xfa])?;
    }
    if base != RDI {
        // mov %rdi, %base
        code.put(&[0x48 | base >> 3, STORE, 0xc0 | RDI << 3 | base & 7])?;
    }
    code.put_moves(LOAD, uses.reads)?;
    let mut failing = [None; 2];
    if memory.is_some() {
        failing = code.put_check(at, insn, scratch, platform.address_bits)?;
    }
    if uses.reads_flags {
        code.put_access(LOAD, scratch, saved.flags)?;
        code.put_and(scratch)?;
        code.put_push(0x50, scratch)?;
        // popf
        code.put(&[0x9d])?;
    }
    let access = memory.is_some().then_some(code.len);
    code.put_insn(at, insn)?;
    code.put_moves(STORE, uses.writes)?;
    if uses.writes_flags {
        // pushf
        code.put(&[0x9c])?;
        code.put_push(0x58, scratch)?;
        // xor flags(base), scratch
        code.put_access(0x33, scratch, saved.flags)?;
        code.put_and(scratch)?;
        code.put_access(0x31, scratch, saved.flags)?;
    }
    // xor %eax, %eax
    code.put(&[0x31, 0xc0])?;
    code.put_jump(done)?;
    let failed = code.len;
    if memory.is_some() {
        for jump in failing.into_iter().flatten() {
            code.aim(jump)?;
        }
        // mov $1, %eax
        code.put(&[0xb8, 1, 0, 0, 0])?;
        code.put_jump(done)?;
    }
    Some(Apart {
        len: code.len,
        access,
        failed,
    })
}

/// Returns true for `lea`, which accesses no memory.
fn is_lea(insn: &Insn) -> bool {
    insn.map() == 0 && insn.opcode() == 0x8d
}

/// Returns true for `bt` with a register, which gives the distance of the bit from the operand.
fn is_string_of_bits(insn: &Insn) -> bool {
    insn.map() == 1 && insn.opcode() == 0xa3
}

struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
    to: u64,
    /// Register with the address of the others.
    base: u8,
    saved: &'a Saved,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.out.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    fn next(&self) -> u64 {
        self.to
            .wrapping_add(u64::try_from(self.len).unwrap_or(u64::MAX))
    }

    /// Writes an operation of 64 bits on a register and the word at this offset.
    fn put_access(&mut self, opcode: u8, register: u8, offset: u32) -> Option<()> {
        // With a displacement of 32 bits. No possible base register needs a SIB byte.
        let modrm = 0x80 | (register & 7) << 3 | self.base & 7;
        self.put(&[0x48 | (register >> 3) << 2 | self.base >> 3, opcode, modrm])?;
        self.put(&offset.to_le_bytes())
    }

    /// Loads these registers from their saved values, or saves them.
    fn put_moves(&mut self, opcode: u8, registers: u16) -> Option<()> {
        let saved = self.saved;
        for (number, offset) in (0u8..).zip(saved.registers) {
            if registers >> number & 1 != 0 {
                self.put_access(opcode, number, offset.into())?;
            }
        }
        Some(())
    }

    /// Writes a check that fails for all but kernel memory that the trap does not use. Returns the
    /// positions of the jumps to aim.
    fn put_check(
        &mut self,
        at: u64,
        insn: &Insn,
        scratch: u8,
        address_bits: u8,
    ) -> Option<[Option<usize>; 2]> {
        let rex = 0x48 | scratch >> 3;
        let rm = 0xc0 | scratch & 7;
        self.put_lea(at, insn, scratch)?;
        // sar $last, scratch; inc scratch; jne
        let last = address_bits.checked_sub(1)?;
        self.put(&[rex, 0xc1, rm | 7 << 3, last, rex, 0xff, rm, JNE, 0])?;
        let outside = self.len;
        self.put_lea(at, insn, scratch)?;
        // sub rsp, scratch; cmp $-BELOW, scratch; jae
        let rsp = *self.saved.registers.get(usize::from(RSP))?;
        self.put_access(0x2b, scratch, rsp.into())?;
        self.put(&[rex, 0x81, rm | 7 << 3])?;
        self.put(&BELOW.wrapping_neg().to_le_bytes())?;
        self.put(&[JAE, 0])?;
        Some([Some(outside), Some(self.len)])
    }

    /// Aims the short jump that ends there at this position.
    fn aim(&mut self, jump: usize) -> Option<()> {
        let distance = i8::try_from(self.len.checked_sub(jump)?).ok()?;
        *self.out.get_mut(jump.checked_sub(1)?)? = distance.to_le_bytes()[0];
        Some(())
    }

    /// Loads the address of the operand in memory.
    fn put_lea(&mut self, at: u64, insn: &Insn, register: u8) -> Option<()> {
        let memory = insn.memory_operand()?;
        if let Some(target) = insn.rip_relative_target(at) {
            // mov $target, register
            let rex = 0x48 | register >> 3;
            self.put(&[rex, 0xb8 | register & 7])?;
            return self.put(&target.to_le_bytes());
        }
        let none = |register: Option<Register>| register.map_or(0, Register::number);
        let (index, scale) = match memory.index {
            Some((index, scale)) => (index.number(), u8::try_from(scale).ok()?),
            // No index.
            None => (RSP, 0),
        };
        let base = none(memory.base);
        let rex = 0x48 | (register >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        // Without a base, mode 0 has only a displacement.
        let (mode, base) = match memory.base {
            Some(_) => (0x80, base & 7),
            None => (0, 5),
        };
        let sib = scale << 6 | (index & 7) << 3 | base;
        self.put(&[rex, 0x8d, mode | (register & 7) << 3 | 4, sib])?;
        self.put(&i32::try_from(memory.displacement).ok()?.to_le_bytes())
    }

    /// and $ARITHMETIC, register: of 32 bits, which clears the other bits.
    fn put_and(&mut self, register: u8) -> Option<()> {
        self.put(&[0x40 | register >> 3, 0x81, 0xe0 | register & 7])?;
        self.put(&ARITHMETIC.to_le_bytes())
    }

    /// push or pop
    fn put_push(&mut self, opcode: u8, register: u8) -> Option<()> {
        self.put(&[0x40 | register >> 3, opcode | register & 7])
    }

    fn put_insn(&mut self, at: u64, insn: &Insn) -> Option<()> {
        let mut copy = [0; 16];
        match relocate(insn, at, self.next(), &mut copy) {
            Ok(len) => self.put(copy.get(..len)?),
            Err(RelocateError::OutOfReach | RelocateError::Branch) => None,
        }
    }

    fn put_jump(&mut self, target: u64) -> Option<()> {
        self.put(&[0xe9])?;
        let way = i64::from_le_bytes(
            target
                .wrapping_sub(self.next().wrapping_add(4))
                .to_le_bytes(),
        );
        self.put(&i32::try_from(way).ok()?.to_le_bytes())
    }
}
