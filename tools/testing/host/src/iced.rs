// SPDX-License-Identifier: GPL-2.0

//! A second decoder, iced-x86, to compare with.
//!
//! Where iced-x86 knows an instruction, ours has to agree in everything. iced-x86 rejects more,
//! since it has a list of all instructions, while ours knows which operand bytes follow an opcode.
//! [`Leniency`] lists the instructions that ours accepts beyond that list.

use ferro_core::insn::DecodeError;
use ferro_core::insn::Encoding;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use ferro_kprobes_core::relocate;
use iced_x86::CpuidFeature;
use iced_x86::Decoder;
use iced_x86::DecoderOptions;
use iced_x86::FlowControl;
use iced_x86::Instruction;
use iced_x86::Mnemonic;
use iced_x86::OpKind;

/// Reason why ours accepts an instruction that the other decoder rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leniency {
    /// REX2 and EVEX map 4: the other has no APX.
    Apx,
    /// The opcode is unused, in a map where all opcodes have the same operand bytes.
    ReservedInMap,
    /// The opcode has other forms: a group's other members, memory in place of a register, another
    /// mandatory prefix. All have the same operand bytes.
    ReservedForm,
    /// D6, which Intel has documented as `udb` since.
    Udb,
    /// The kernel's signature of forced emulation, a prefix to it and to us.
    ForcedEmulation,
}

/// Result of a comparison without a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agreement {
    /// An instruction, to both.
    Instruction,
    /// None, to both.
    Refused,
    /// Only ours accepts the instruction.
    Lenient(Leniency),
}

/// Decodes as strictly as the other can, with everything a CPU may have.
pub fn decode(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode()
}

/// The other way to decode, which does not mind lock prefixes and reserved bits.
fn decode_loosely(bytes: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::NO_INVALID_CHECK).decode()
}

/// Checks that an instruction could be one that never faults in the kernel. The error says why not.
pub fn can_be_without_fault(bytes: &[u8]) -> Result<(), String> {
    const BASIC: [CpuidFeature; 7] = [
        CpuidFeature::INTEL8086,
        CpuidFeature::INTEL186,
        CpuidFeature::INTEL386,
        CpuidFeature::INTEL486,
        CpuidFeature::X64,
        CpuidFeature::CMOV,
        CpuidFeature::MULTIBYTENOP,
    ];
    let insn = decode(bytes, 0);
    let accesses = !matches!(insn.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    let has_memory = (0..insn.op_count()).any(|n| insn.op_kind(n) == OpKind::Memory);
    let other = insn
        .cpuid_features()
        .iter()
        .find(|one| !BASIC.contains(one));
    match insn.mnemonic() {
        _ if insn.is_invalid() => Err("it is invalid".into()),
        _ if insn.is_privileged() => Err("it is privileged".into()),
        _ if accesses && has_memory => Err("it accesses memory".into()),
        Mnemonic::Div | Mnemonic::Idiv => Err("it divides".into()),
        Mnemonic::Ret | Mnemonic::Leave => Err("it takes from memory where to go on".into()),
        _ => other.map_or(Ok(()), |feature| Err(format!("it needs {feature:?}"))),
    }
}

/// Compares the decoders on the first instruction of `bytes`, as if at `ip`. The error says how
/// they differ.
pub fn compare(bytes: &[u8], ip: u64) -> Result<Agreement, String> {
    let ours = Insn::decode(bytes);
    let strict = decode(bytes, ip);
    if strict.is_invalid() {
        return compare_invalid(bytes, ip, ours);
    }
    let insn = match ours {
        Ok(insn) if insn.is_forced_emulation() => {
            return Ok(Agreement::Lenient(Leniency::ForcedEmulation));
        }
        Ok(insn) => insn,
        Err(error) => return Err(format!("{bytes:02x?}: {error:?}, but {strict:?}")),
    };
    same("length", &insn.len(), &strict.len())
        .and_then(|()| compare_operand(&insn, &strict))
        .and_then(|()| compare_address(&insn, &strict))
        .and_then(|()| compare_flow(&insn, &strict))
        .map_err(|error| format!("{bytes:02x?} at {ip:#x}, {:?}: {error}", strict.code()))?;
    Ok(Agreement::Instruction)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, other: &T) -> Result<(), String> {
    match ours == other {
        true => Ok(()),
        false => Err(format!("{what}: ours {ours:x?}, other {other:x?}")),
    }
}

fn compare_invalid(
    bytes: &[u8],
    ip: u64,
    ours: Result<Insn, DecodeError>,
) -> Result<Agreement, String> {
    let loose = decode_loosely(bytes, ip);
    let insn = match ours {
        Ok(insn) => insn,
        Err(DecodeError::Truncated | DecodeError::TooLong) if !loose.is_invalid() => {
            return Err(format!("{bytes:02x?}: {ours:?}, but loosely {loose:?}"));
        }
        Err(_) => return Ok(Agreement::Refused),
    };
    if !loose.is_invalid() && insn.len() != loose.len() {
        let (ours, other) = (insn.len(), loose.len());
        return Err(format!(
            "{bytes:02x?}: length: ours {ours}, other loosely {other}"
        ));
    }
    Ok(Agreement::Lenient(match (insn.encoding(), insn.map()) {
        (Encoding::Rex2, _) | (Encoding::Evex, 4) => Leniency::Apx,
        (Encoding::Vex | Encoding::Evex | Encoding::Xop, _) => Leniency::ReservedInMap,
        (Encoding::Legacy, 2 | 3) => Leniency::ReservedInMap,
        (Encoding::Legacy, 0) if insn.opcode() == 0xd6 => Leniency::Udb,
        (Encoding::Legacy, _) => Leniency::ReservedForm,
    }))
}

/// RIP-relative operands: the address, and that a copy elsewhere has the same.
fn compare_operand(insn: &Insn, strict: &Instruction) -> Result<(), String> {
    let address = strict
        .is_ip_rel_memory_operand()
        .then(|| strict.ip_rel_memory_address());
    same("operand", &insn.rip_relative_target(strict.ip()), &address)?;
    let mut copy = [0; 16];
    for to in [
        strict.ip().wrapping_add(0x1234_5678),
        strict.ip().wrapping_sub(0x1234_5677),
        strict.ip().wrapping_add(0x7000_0000),
    ] {
        let Ok(len) = relocate(insn, strict.ip(), to, &mut copy) else {
            continue;
        };
        same("length of the copy", &len, &insn.len())?;
        let moved = decode(&copy[..len], to);
        let its = moved
            .is_ip_rel_memory_operand()
            .then(|| moved.ip_rel_memory_address());
        same("operand of the copy", &its, &address)?;
        same("code of the copy", &moved.code(), &strict.code())?;
    }
    Ok(())
}

/// The address of a memory operand, with some number in each register.
fn compare_address(insn: &Insn, strict: &Instruction) -> Result<(), String> {
    let Some(memory) = insn.memory_operand() else {
        return Ok(());
    };
    let Some(operand) = (0..strict.op_count()).find(|op| strict.op_kind(*op) == OpKind::Memory)
    else {
        return Err("no memory operand".to_string());
    };
    let other = strict.virtual_address(operand, 0, |register, _, _| {
        match register.is_segment_register() {
            true => Some(0),
            false => u64::try_from(register.number())
                .ok()
                .map(filler)
                .map(|value| match register.size() {
                    4 => value & 0xffff_ffff,
                    _ => value,
                }),
        }
    });
    let ours = memory.address(strict.next_ip(), |register| {
        filler(u64::from(register.number()))
    });
    same("address", &Some(ours), &other)
}

/// Some number for a register.
fn filler(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Instructions that switch to other code in another mode.
const MODE_SWITCHES: [Mnemonic; 9] = [
    Mnemonic::Enclu,
    Mnemonic::Getsec,
    Mnemonic::Getsecq,
    Mnemonic::Rsm,
    Mnemonic::Seamret,
    Mnemonic::Skinit,
    Mnemonic::Vmlaunch,
    Mnemonic::Vmresume,
    Mnemonic::Vmrun,
];

/// Compares the successors of an instruction.
fn compare_flow(insn: &Insn, strict: &Instruction) -> Result<(), String> {
    use FlowControl as Other;
    let flow = insn.flow();
    let agree = match strict.flow_control() {
        // The other takes some of those for returns, some for calls, and some for nothing special.
        _ if MODE_SWITCHES.contains(&strict.mnemonic()) => flow == Flow::ModeSwitch,
        Other::Next => match strict.mnemonic() {
            Mnemonic::Hlt => flow == Flow::Halt,
            _ => flow == Flow::Next,
        },
        Other::UnconditionalBranch => {
            matches!(flow, Flow::Jump(Target::Relative(_))) || flow == Flow::FarJump
        }
        Other::IndirectBranch => {
            matches!(flow, Flow::Jump(Target::Memory(_) | Target::Register(_)))
                || flow == Flow::FarJump
        }
        Other::ConditionalBranch => matches!(flow, Flow::JumpIf(..) | Flow::Loop(..)),
        Other::Return => match strict.mnemonic() {
            Mnemonic::Ret => matches!(flow, Flow::Return(_)),
            Mnemonic::Retf => flow == Flow::FarReturn,
            Mnemonic::Sysret | Mnemonic::Sysretq | Mnemonic::Sysexit | Mnemonic::Sysexitq => {
                flow == Flow::SystemReturn
            }
            _ => flow == Flow::InterruptReturn,
        },
        Other::Call => match strict.mnemonic() {
            Mnemonic::Call => matches!(flow, Flow::Call(Target::Relative(_))),
            Mnemonic::Syscall | Mnemonic::Sysenter => flow == Flow::SystemCall,
            // iced-x86 counts an instruction for the hypervisor as a call.
            _ => flow == Flow::Next,
        },
        Other::IndirectCall => {
            matches!(flow, Flow::Call(Target::Memory(_) | Target::Register(_)))
                || flow == Flow::FarCall
        }
        Other::Interrupt => matches!(flow, Flow::Interrupt(_)),
        Other::XbeginXabortXend => matches!(flow, Flow::TransactionBegin(_) | Flow::Next),
        Other::Exception => flow == Flow::Undefined,
    };
    if !agree {
        return Err(format!(
            "flow: ours {flow:?}, other {:?}",
            strict.flow_control()
        ));
    }
    if let Flow::Return(bytes) = flow {
        let other = if strict.op_count() == 1 {
            strict.immediate16()
        } else {
            0
        };
        same("bytes of ret", &bytes, &other)?;
    }
    let target = strict.near_branch_target();
    let target = (target != 0 || insn.branch_target(strict.ip()).is_some()).then_some(target);
    same("target", &insn.branch_target(strict.ip()), &target)
}
