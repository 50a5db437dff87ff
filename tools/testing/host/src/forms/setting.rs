// SPDX-License-Identifier: GPL-2.0

//! Registers and memory that an instruction needs to be run, if it can be.

use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use iced_x86::Code;
use iced_x86::CpuidFeature;
use iced_x86::Instruction;
use iced_x86::InstructionInfoFactory;
use iced_x86::Mnemonic;
use iced_x86::OpAccess;
use iced_x86::OpKind;
use iced_x86::Register;

/// Preparations of the test before it calls a form. The numbers are the ones in `forms.h`.
pub mod flags {
    /// The operand is in memory, at base + index + displacement.
    pub const MEMORY: u32 = 0x01;
    /// The memory is per-CPU.
    pub const PERCPU: u32 = 0x02;
    /// May go on at the other end.
    pub const JUMPS: u32 = 0x04;
    /// The register, the operand in memory, or the top of the stack has the other end's address.
    pub const TO_REGISTER: u32 = 0x08;
    /// See [`TO_REGISTER`].
    pub const TO_MEMORY: u32 = 0x10;
    /// See [`TO_REGISTER`].
    pub const TO_STACK: u32 = 0x20;
    /// RSI and RDI are pointers, RCX is small.
    pub const STRING: u32 = 0x40;
    /// The operands must not overflow; the register is the divisor.
    pub const DIVIDES: u32 = 0x80;
    /// The register is the number of a bit.
    pub const BIT: u32 = 0x100;
    /// The top of the stack is for the flags.
    pub const POPS_FLAGS: u32 = 0x200;
    /// The stack pointer changes, and the memory below its old value is undefined.
    pub const MOVES_STACK: u32 = 0x400;
    /// Pushes the flags.
    pub const PUSHES_FLAGS: u32 = 0x800;
}

/// No register.
pub const NONE: u8 = 0xff;

/// Largest distance that a stack pointer may move.
const STACK_REACH: u64 = 256;

/// Registers and memory that a form needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Of [`flags`].
    pub flags: u32,
    /// The register that the flags refer to.
    pub register: u8,
    /// The base of the operand in memory.
    pub base: u8,
    /// The index of the operand in memory.
    pub index: u8,
    /// Shift of the index.
    pub shift: u8,
}

/// Features of every 64-bit processor, except those that use the FPU.
const FEATURES: [CpuidFeature; 10] = [
    CpuidFeature::INTEL8086,
    CpuidFeature::INTEL186,
    CpuidFeature::INTEL286,
    CpuidFeature::INTEL386,
    CpuidFeature::INTEL486,
    CpuidFeature::X64,
    CpuidFeature::CMOV,
    CpuidFeature::CX8,
    CpuidFeature::MULTIBYTENOP,
    CpuidFeature::PAUSE,
];

/// Instructions without a CPUID feature that are included.
const MORE: [Mnemonic; 7] = [
    Mnemonic::Cmpxchg16b,
    Mnemonic::Lfence,
    Mnemonic::Mfence,
    Mnemonic::Sfence,
    Mnemonic::Prefetchnta,
    Mnemonic::Prefetcht0,
    Mnemonic::Prefetchw,
];

/// Instructions that depend on more than registers and memory, or change more.
const EXCLUDED: [Mnemonic; 20] = [
    Mnemonic::Cpuid,
    Mnemonic::Rdtsc,
    Mnemonic::Sgdt,
    Mnemonic::Sidt,
    Mnemonic::Sldt,
    Mnemonic::Str,
    Mnemonic::Smsw,
    Mnemonic::Lar,
    Mnemonic::Lsl,
    Mnemonic::Verr,
    Mnemonic::Verw,
    Mnemonic::Lss,
    Mnemonic::Lfs,
    Mnemonic::Lgs,
    Mnemonic::Enter,
    Mnemonic::Xlatb,
    Mnemonic::Popf,
    Mnemonic::Swapgs,
    Mnemonic::Wait,
    Mnemonic::Jmpe,
];

impl Setting {
    /// Returns the setting that `insn` needs; `None` if it cannot be run by itself.
    pub fn of(insn: &Insn, other: &Instruction, info: &mut InstructionInfoFactory) -> Option<Self> {
        if !is_plain(other) {
            return None;
        }
        let mut setting = Self {
            flags: 0,
            register: NONE,
            base: NONE,
            index: NONE,
            shift: 0,
        };
        let info = info.info(other);
        let writes = |access| {
            !matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            )
        };
        for used in info.used_registers() {
            let register = used.register();
            if register.is_gpr() {
                if register.full_register() == Register::RSP && writes(used.access()) {
                    setting.flags |= stack_move(other)?;
                }
            } else if register.is_segment_register() && !writes(used.access()) {
                // gs is looked at with the operand
            } else if register != Register::RIP {
                return None;
            }
        }
        setting.memory(insn, other, !info.used_memory().is_empty())?;
        setting.flow(insn)?;
        setting.values(other)?;
        Some(setting)
    }

    /// Sets the place of the operand.
    fn memory(&mut self, insn: &Insn, other: &Instruction, is_used: bool) -> Option<()> {
        if is_string(other) {
            self.flags |= flags::STRING;
            // Operands with 32-bit addresses, or with another segment, are handled elsewhere.
            let usual = other.segment_prefix() == Register::None && !addresses_32(other);
            return usual.then_some(());
        }
        let has_operand = (0..other.op_count()).any(|op| other.op_kind(op) == OpKind::Memory);
        if !has_operand || !is_used {
            return Some(());
        }
        if other.memory_displ_size() == 8 && other.memory_base() == Register::None {
            return None;
        }
        // The accumulator's own moves have an address in them, also of 32 bits.
        insn.modrm()?;
        if addresses_32(other) || other.segment_prefix() == Register::FS {
            return None;
        }
        self.flags |= flags::MEMORY;
        if other.segment_prefix() == Register::GS {
            self.flags |= flags::PERCPU;
        }
        if !other.is_ip_rel_memory_operand() {
            self.base = number(other.memory_base());
            self.index = number(other.memory_index());
            self.shift = u8::try_from(other.memory_index_scale().trailing_zeros()).ok()?;
        }
        // These operands cannot be put anywhere.
        let is_inexact = self.index != NONE && (self.base == NONE || self.base == self.index);
        let on_stack = self.base == number(Register::RSP);
        let refused = (is_inexact && other.mnemonic() == Mnemonic::Cmpxchg16b)
            || (on_stack
                && (self.flags & flags::PERCPU != 0 || other.mnemonic() == Mnemonic::Cmpxchg16b));
        (!refused).then_some(())
    }

    /// Adjusts the setting for the instruction's target.
    fn flow(&mut self, insn: &Insn) -> Option<()> {
        let target = match insn.flow() {
            Flow::Next => return Some(()),
            // Vendors do not agree on the target of such a branch.
            _ if insn.prefixes().operand_size => return None,
            Flow::Jump(target) | Flow::Call(target) => target,
            Flow::JumpIf(..) | Flow::Loop(..) => {
                self.flags |= flags::JUMPS;
                return Some(());
            }
            Flow::Return(_) => {
                self.flags |= flags::JUMPS | flags::TO_STACK;
                return Some(());
            }
            _ => return None,
        };
        self.flags |= flags::JUMPS;
        match target {
            Target::Relative(_) => (),
            Target::Absolute(_) => return None,
            Target::Register(register) => {
                self.flags |= flags::TO_REGISTER;
                self.register = register.number();
            }
            // Ours refuses such a target in per-CPU memory, which no code uses.
            Target::Memory(_) if self.flags & flags::PERCPU != 0 => return None,
            Target::Memory(_) => self.flags |= flags::TO_MEMORY,
        }
        (self.register != number(Register::RSP)).then_some(())
    }

    /// Which values it can stand.
    fn values(&mut self, other: &Instruction) -> Option<()> {
        let uses = |register| [self.base, self.index].contains(&number(register));
        match other.mnemonic() {
            Mnemonic::Div | Mnemonic::Idiv => {
                if uses(Register::RAX) || uses(Register::RDX) {
                    return None;
                }
                self.flags |= flags::DIVIDES;
                if other.op0_kind() == OpKind::Register {
                    self.register = number(other.op0_register());
                }
                let refused = [Register::RDX, Register::RSP]
                    .map(number)
                    .contains(&self.register)
                    || matches!(
                        other.op0_register(),
                        Register::AH | Register::CH | Register::DH | Register::BH
                    );
                return (!refused).then_some(());
            }
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
                if self.flags & flags::MEMORY != 0 && other.op1_kind() == OpKind::Register =>
            {
                let register = other.op1_register();
                if uses(register) || register.full_register() == Register::RSP {
                    return None;
                }
                self.flags |= flags::BIT;
                self.register = number(register);
            }
            Mnemonic::Popfq => self.flags |= flags::POPS_FLAGS,
            Mnemonic::Pushfq => self.flags |= flags::PUSHES_FLAGS,
            _ => (),
        }
        Some(())
    }
}

fn is_plain(other: &Instruction) -> bool {
    let has = |feature: &CpuidFeature| FEATURES.contains(feature);
    let known = other.cpuid_features().iter().all(has) || MORE.contains(&other.mnemonic());
    let far = [
        Code::Call_m1616,
        Code::Call_m1632,
        Code::Call_m1664,
        Code::Jmp_m1616,
        Code::Jmp_m1632,
        Code::Jmp_m1664,
    ];
    known
        && !other.is_privileged()
        && !EXCLUDED.contains(&other.mnemonic())
        && !far.contains(&other.code())
}

/// Returns the meaning of a change of the stack pointer; `None` if the new value could be any.
fn stack_move(other: &Instruction) -> Option<u32> {
    let near = |value: u64| value.wrapping_add(STACK_REACH) <= 2 * STACK_REACH;
    let to_sp = other.op0_kind() == OpKind::Register && other.op0_register() == Register::RSP;
    let fits = match other.mnemonic() {
        Mnemonic::Push | Mnemonic::Call | Mnemonic::Ret | Mnemonic::Pushfq | Mnemonic::Popfq => {
            return Some(0);
        }
        Mnemonic::Pop => return (!to_sp).then_some(0),
        Mnemonic::Leave => true,
        Mnemonic::Add | Mnemonic::Sub => {
            to_sp
                && other.op1_kind() != OpKind::Register
                && other.op1_kind() != OpKind::Memory
                && near(other.immediate(1))
        }
        Mnemonic::Mov => {
            to_sp && other.op1_kind() == OpKind::Register && other.op1_register() == Register::RBP
        }
        Mnemonic::Lea => {
            let base = other.memory_base();
            to_sp
                && (base == Register::RSP || base == Register::RBP)
                && other.memory_index() == Register::None
                && near(other.memory_displacement64())
        }
        _ => false,
    };
    fits.then_some(flags::MOVES_STACK)
}

fn is_string(other: &Instruction) -> bool {
    other.is_string_instruction()
}

/// Returns true if the addresses of the instruction have 32 bits.
fn addresses_32(other: &Instruction) -> bool {
    let is_32 = |register: Register| register.is_gpr32() || register == Register::EIP;
    let implicit = (0..other.op_count()).any(|op| {
        matches!(
            other.op_kind(op),
            OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI
        )
    });
    implicit || is_32(other.memory_base()) || is_32(other.memory_index())
}

/// The processor's number of a register.
fn number(register: Register) -> u8 {
    match register {
        Register::None => NONE,
        register => u8::try_from(register.full_register().number()).unwrap_or(NONE),
    }
}
