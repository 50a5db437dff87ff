// SPDX-License-Identifier: GPL-2.0

//! Registers and flags that an instruction reads and writes, for execution with saved registers.

use ferro_core::exec::Probe;
use ferro_core::insn::Encoding;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::ModRm;
use ferro_core::insn::Register;

/// Bit mask of the registers except the stack pointer.
const EVERY: u16 = !(1 << RSP);
const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RSP: u8 = 4;

/// Use of registers by an instruction. Each bit is a register's number. A register that it may or
/// may not write also counts as read, so that its saved value is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Registers that it reads.
    pub reads: u16,
    /// Registers that it may write.
    pub writes: u16,
    /// True if it reads RFLAGS.
    pub reads_flags: bool,
    /// True if it may write flags: CF, PF, AF, ZF, SF, OF.
    pub writes_flags: bool,
}

impl Uses {
    /// All except the stack pointer.
    const EVERYTHING: Self = Self {
        reads: EVERY,
        writes: EVERY,
        reads_flags: true,
        writes_flags: true,
    };

    /// Returns the use of registers by an instruction that continues with the next one. Returns
    /// `None` for an instruction with another effect on another stack, even with an adjusted
    /// operand relative to the stack pointer. Also returns `None` for changes of the direction flag
    /// or of the access to user memory, and for divisions, which may fault.
    pub fn of(insn: &Insn) -> Option<Self> {
        if insn.encoding() != Encoding::Legacy || insn.flow() != Flow::Next {
            return None;
        }
        match Probe::of(insn) {
            Probe::Boost => (),
            Probe::Emulate(emulation) if emulation.destination(0).is_some() => {
                return Some(Self::default())
            }
            _ => return None,
        }
        // Per-CPU data needs a segment. Strings and `movabs` name memory without ModRM.
        let in_segment = insn.prefixes().segment.is_some();
        let memory = insn.memory_operand();
        let is_truncated = memory.is_some_and(|memory| memory.truncated);
        if in_segment || is_truncated || has_rex_in_front(insn) || is_special(insn) {
            return None;
        }
        let mut uses = Uses::default();
        let known = Known {
            insn,
            uses: &mut uses,
            on_stack: false,
        };
        match known.find() {
            Some(false) => Some(uses),
            Some(true) => None,
            None => (!names_stack_pointer(insn)).then_some(Self::EVERYTHING),
        }
    }
}

/// Returns true if it uses the stack, changes state outside of [`Uses::of`], or faults.
fn is_special(insn: &Insn) -> bool {
    let modrm = insn.modrm().unwrap_or(ModRm(0));
    match insn.map() {
        0 => match insn.opcode() {
            0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f => true,
            // push, pop, pusha, popa, enter, leave, pushf, popf
            0x50..=0x61 | 0x68 | 0x6a | 0x8f | 0xc8 | 0xc9 | 0x9c | 0x9d => true,
            // cld, std
            0xfc | 0xfd => true,
            // div, idiv
            0xf6 | 0xf7 => modrm.reg() >= 6,
            0xff => modrm.reg() >= 2,
            _ => false,
        },
        1 => match insn.opcode() {
            // clac, stac and others; control registers; push and pop of fs and gs; wrfsbase and
            // others
            0x01 | 0x20..=0x23 | 0xa0 | 0xa1 | 0xa8 | 0xa9 | 0xae => true,
            _ => false,
        },
        _ => false,
    }
}

/// Returns true if an operand may be the stack pointer itself.
fn names_stack_pointer(insn: &Insn) -> bool {
    let is = |register: Register| register == Register::RSP;
    match insn.modrm() {
        Some(modrm) => {
            is(insn.reg_register(modrm.reg()))
                || modrm.mode() == 3 && is(insn.base_register(modrm.rm()))
        }
        // The register is in the opcode.
        None => insn.opcode() & 7 == RSP && is(insn.base_register(RSP)),
    }
}

/// Analysis of a common instruction.
struct Known<'a> {
    insn: &'a Insn,
    uses: &'a mut Uses,
    /// True if an operand is the stack pointer.
    on_stack: bool,
}

/// Use of an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Read,
    Write,
    Change,
}

impl Known<'_> {
    /// Returns true if an operand is the stack pointer; `None` if the instruction is unknown.
    fn find(mut self) -> Option<bool> {
        let opcode = self.insn.opcode();
        match self.insn.map() {
            0 => self.one_byte(opcode)?,
            1 => self.two_bytes(opcode)?,
            _ => return None,
        }
        if let Some(memory) = self.insn.memory_operand() {
            let index = memory.index.map(|(register, _)| register);
            for register in [memory.base, index].into_iter().flatten() {
                // An operand relative to the stack pointer is adjusted.
                if register != Register::RSP {
                    self.uses.reads |= bit(register.number());
                }
            }
        }
        Some(self.on_stack)
    }

    fn one_byte(&mut self, opcode: u8) -> Option<()> {
        use How::{Change, Read, Write};
        let byte = opcode & 1 == 0;
        let group = self.insn.modrm().map_or(0, ModRm::reg);
        match opcode {
            0x00..=0x3f if opcode & 7 < 6 => {
                let how = self.arithmetic(opcode >> 3 & 7);
                match opcode & 7 {
                    0 | 1 => {
                        self.rm(how, byte);
                        self.reg(Read, byte);
                    }
                    2 | 3 => {
                        self.reg(how, byte);
                        self.rm(Read, byte);
                    }
                    _ => self.fixed(how, RAX, byte),
                }
            }
            0x63 | 0x8b => {
                self.reg(Write, false);
                self.rm(Read, false);
            }
            0x69 | 0x6b => {
                self.flags(false);
                self.reg(Write, false);
                self.rm(Read, false);
            }
            0x80 | 0x81 | 0x83 => {
                let how = self.arithmetic(group);
                self.rm(how, opcode == 0x80);
            }
            0x84 | 0x85 => {
                self.flags(false);
                self.rm(Read, byte);
                self.reg(Read, byte);
            }
            0x86 | 0x87 => {
                self.rm(Change, byte);
                self.reg(Change, byte);
            }
            0x88 | 0x89 => {
                self.rm(Write, byte);
                self.reg(Read, byte);
            }
            0x8a => {
                self.reg(Write, true);
                self.rm(Read, true);
            }
            // Its operand is an address; memory_operand() has its registers.
            0x8d => self.reg(Write, false),
            0xa8 | 0xa9 => {
                self.flags(false);
                self.fixed(Read, RAX, byte);
            }
            0xb0..=0xb7 => self.in_opcode(Write, true),
            0xb8..=0xbf => self.in_opcode(Write, false),
            0xc0 | 0xc1 | 0xd0..=0xd3 => {
                self.flags(true);
                self.rm(Change, byte);
                if opcode >= 0xd2 {
                    self.fixed(Read, RCX, true);
                }
            }
            0xc6 | 0xc7 if group == 0 => self.rm(Write, byte),
            0xf6 | 0xf7 if group < 2 => {
                self.flags(false);
                self.rm(Read, byte);
            }
            0xf6 | 0xf7 if group == 2 => self.rm(Change, byte),
            0xf6 | 0xf7 if group == 3 => {
                self.flags(false);
                self.rm(Change, byte);
            }
            // mul, imul
            0xf6 | 0xf7 if group < 6 => {
                self.flags(false);
                self.rm(Read, byte);
                self.fixed(Change, RAX, byte);
                // A byte result is in ax.
                if !byte {
                    self.fixed(Write, RDX, false);
                }
            }
            0xfe | 0xff if group < 2 => {
                self.flags(true);
                self.rm(Change, byte);
            }
            0x98 => self.fixed(Change, RAX, false),
            0x99 => {
                self.fixed(Read, RAX, false);
                self.fixed(Write, RDX, false);
            }
            _ => return None,
        }
        Some(())
    }

    fn two_bytes(&mut self, opcode: u8) -> Option<()> {
        use How::{Change, Read, Write};
        match opcode {
            0x40..=0x4f => {
                self.uses.reads_flags = true;
                self.reg(Change, false);
                self.rm(Read, false);
            }
            0x90..=0x9f => {
                self.uses.reads_flags = true;
                self.rm(Write, true);
            }
            0xaf => {
                self.flags(false);
                self.reg(Change, false);
                self.rm(Read, false);
            }
            0xa3 => {
                self.flags(true);
                self.rm(Read, false);
                self.reg(Read, false);
            }
            0xb6 | 0xb7 | 0xbe | 0xbf => {
                self.reg(Write, false);
                self.rm(Read, opcode & 1 == 0);
            }
            0xc8..=0xcf => self.in_opcode(Change, false),
            _ => return None,
        }
        Some(())
    }

    /// Handles a member of the group of `add`.
    fn arithmetic(&mut self, member: u8) -> How {
        self.flags(matches!(member, 2 | 3));
        match member {
            7 => How::Read,
            _ => How::Change,
        }
    }

    /// Notes that it writes flags; if it reads them as well, not all of them or not always.
    fn flags(&mut self, reads: bool) {
        self.uses.writes_flags = true;
        self.uses.reads_flags |= reads;
    }

    /// Handles ModRM.rm, if it is a register.
    fn rm(&mut self, how: How, byte: bool) {
        if let Some(modrm) = self.insn.modrm().filter(|modrm| modrm.mode() == 3) {
            self.register(how, self.insn.base_register(modrm.rm()), byte);
        }
    }

    fn reg(&mut self, how: How, byte: bool) {
        if let Some(modrm) = self.insn.modrm() {
            self.register(how, self.insn.reg_register(modrm.reg()), byte);
        }
    }

    fn in_opcode(&mut self, how: How, byte: bool) {
        self.register(how, self.insn.base_register(self.insn.opcode()), byte);
    }

    /// Handles a register that the operands do not name.
    fn fixed(&mut self, how: How, number: u8, byte: bool) {
        self.add(how, number, byte);
    }

    fn register(&mut self, how: How, register: Register, byte: bool) {
        let mut number = register.number();
        if byte && (4..8).contains(&number) && !has_rex(self.insn) {
            // ah, ch, dh, bh
            number -= 4;
        }
        self.add(how, number, byte);
    }

    fn add(&mut self, how: How, number: u8, byte: bool) {
        self.on_stack |= number == RSP;
        // 8 or 16 bits keep the other bits; 32 clear them.
        let is_part = byte || self.insn.is_word();
        if how != How::Write || is_part {
            self.uses.reads |= bit(number);
        }
        if how != How::Read {
            self.uses.writes |= bit(number);
        }
    }
}

fn bit(number: u8) -> u16 {
    1 << (number & 15)
}

/// Returns true if it has a REX prefix, even without bits. No other prefix or escape has such a
/// value.
fn has_rex(insn: &Insn) -> bool {
    prefixes(insn).any(|byte| (0x40..=0x4f).contains(byte))
}

/// Returns true if another prefix follows a REX. CPUs ignore such a REX, but QEMU does not: the
/// operands differ.
fn has_rex_in_front(insn: &Insn) -> bool {
    let mut rest = prefixes(insn).skip_while(|byte| !(0x40..=0x4f).contains(*byte));
    // The escapes of an opcode begin with 0f.
    rest.any(|byte| !matches!(byte, 0x0f | 0x38 | 0x3a | 0x40..=0x4f))
}

/// Returns the bytes before the opcode.
fn prefixes(insn: &Insn) -> impl Iterator<Item = &u8> {
    let before = usize::from(insn.opcode_field().at);
    insn.bytes().iter().take(before)
}
