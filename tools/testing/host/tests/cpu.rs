// SPDX-License-Identifier: GPL-2.0

//! Compares the emulation with this machine's CPU, for instructions that user space may execute.

#![cfg(target_arch = "x86_64")]

use ferro_core::insn::Insn;
use ferro_core::insn::Register;
use ferro_kprobes_core::Arithmetic;
use ferro_kprobes_core::Compute;
use ferro_kprobes_core::Emulation;
use ferro_kprobes_core::Fault;
use ferro_kprobes_core::Machine;
use ferro_kprobes_core::Probe;
use std::arch::asm;

#[path = "../../../../rust/sys/code/alu.rs"]
mod arithmetic;

/// The arithmetic flags that conditions look at.
const FLAGS: [u64; 5] = [1, 1 << 2, 1 << 6, 1 << 7, 1 << 11];

/// All combinations of them.
fn combinations() -> impl Iterator<Item = u64> {
    (0..32).map(|set| {
        (0..5)
            .filter(|bit| set & (1 << bit) != 0)
            .map(|bit| FLAGS[bit])
            .sum()
    })
}

/// A counter and flags, which are all that conditional jumps look at.
#[derive(Debug)]
struct Counter {
    rcx: u64,
    flags: u64,
}

impl Machine for Counter {
    fn register(&self, register: Register) -> u64 {
        assert_eq!(register, Register::RCX);
        self.rcx
    }

    fn set_register(&mut self, register: Register, value: u64) {
        assert_eq!(register, Register::RCX);
        self.rcx = value;
    }

    fn flags(&self) -> u64 {
        self.flags
    }

    fn set_flags(&mut self, flags: u64) {
        self.flags = flags;
    }

    ferro_host::without_memory!();
}

fn emulation(bytes: &[u8]) -> Emulation {
    let insn = Insn::decode(bytes).expect("an instruction");
    assert_eq!(insn.len(), bytes.len());
    match Probe::of(&insn) {
        Probe::Emulate(emulation) => emulation,
        other => panic!("{bytes:02x?} is {other:?}"),
    }
}

/// Emulates a jump over 16 bytes; returns true if it was taken, and the counter afterwards.
fn emulated(bytes: &[u8], rcx: u64, flags: u64) -> (bool, u64) {
    let mut machine = Counter { rcx, flags };
    let next = emulation(bytes)
        .run(0x1000, &mut machine)
        .expect("it does not use memory");
    let behind = 0x1000 + bytes.len() as u64;
    assert!(next == behind || next == behind + 0x10);
    (next != behind, machine.rcx)
}

/// Executes a jump with these flags and this counter. Returns true if it was taken, and the counter
/// afterwards.
macro_rules! executed {
    ($($jump:literal),+; $rcx:expr, $flags:expr) => {{
        let (mut rcx, taken): (u64, u64);
        rcx = $rcx;
        // SAFETY: The flags are arithmetic ones, which no later code relies on. The stack is as
        // before.
        unsafe {
            asm!(
                "push {flags}",
                "popfq",
                $($jump),+,
                "mov {taken}, 0",
                "jmp 3f",
                "2:",
                "mov {taken}, 1",
                "3:",
                flags = in(reg) $flags,
                taken = out(reg) taken,
                inout("rcx") rcx,
            );
        }
        (taken != 0, rcx)
    }};
}

macro_rules! conditions {
    ($($opcode:literal $jump:literal),+ $(,)?) => {
        for flags in combinations() {
            $({
                let real = executed!($jump; 0u64, flags);
                assert_eq!(emulated(&[$opcode, 0x10], 0, flags), real, "{} {flags:x}", $jump);
                let near = [0x0f, $opcode + 0x10, 0x10, 0, 0, 0];
                assert_eq!(emulated(&near, 0, flags), real, "{} {flags:x}", $jump);
            })+
        }
    };
}

#[test]
fn conditional_jumps() {
    conditions!(
        0x70 "jo 2f", 0x71 "jno 2f", 0x72 "jb 2f", 0x73 "jae 2f",
        0x74 "je 2f", 0x75 "jne 2f", 0x76 "jbe 2f", 0x77 "ja 2f",
        0x78 "js 2f", 0x79 "jns 2f", 0x7a "jp 2f", 0x7b "jnp 2f",
        0x7c "jl 2f", 0x7d "jge 2f", 0x7e "jle 2f", 0x7f "jg 2f",
    );
}

macro_rules! loops {
    ($($opcode:literal $jump:literal),+ $(,)?) => {
        for rcx in [0, 1, 2, 0xffff_ffff, 1 << 32, (1 << 32) + 1, u64::MAX] {
            for flags in combinations() {
                $({
                    let real = executed!($jump; rcx, flags);
                    let ours = emulated(&[$opcode, 0x10], rcx, flags);
                    assert_eq!(ours, real, "{} {rcx:x} {flags:x}", $jump);
                    let real = executed!(".byte 0x67", $jump; rcx, flags);
                    let ours = emulated(&[0x67, $opcode, 0x10], rcx, flags);
                    assert_eq!(ours, real, "67 {} {rcx:x} {flags:x}", $jump);
                })+
            }
        }
    };
}

#[test]
fn loops() {
    loops!(0xe0 "loopne 2f", 0xe1 "loope 2f", 0xe2 "loop 2f", 0xe3 "jrcxz 2f");
}

/// All registers and flags, with the memory of this process.
#[derive(Clone, Debug, PartialEq)]
struct Registers {
    registers: [u64; 16],
    flags: u64,
}

impl Machine for Registers {
    fn register(&self, register: Register) -> u64 {
        self.registers[usize::from(register.number())]
    }

    fn set_register(&mut self, register: Register, value: u64) {
        self.registers[usize::from(register.number())] = value;
    }

    fn flags(&self) -> u64 {
        self.flags
    }

    fn set_flags(&mut self, flags: u64) {
        self.flags = flags;
    }

    fn calculate(operation: Arithmetic, a: u64, b: u64, wide: bool) -> (u64, u64) {
        arithmetic::calculate(operation, a, b, wide)
    }

    fn read(&mut self, address: u64, wide: bool) -> Result<u64, Fault> {
        let at = address as *const u64;
        Ok(match wide {
            // SAFETY: The tests have operands in memory of their own only.
            true => unsafe { at.read() },
            // SAFETY: As above.
            false => u64::from(unsafe { at.cast::<u32>().read() }),
        })
    }

    fn write(&mut self, address: u64, value: u64, wide: bool) -> Result<(), Fault> {
        let at = address as *mut u64;
        match wide {
            // SAFETY: The tests have operands in memory of their own only.
            true => unsafe { at.write(value) },
            // SAFETY: As above.
            false => unsafe { at.cast::<u32>().write(value as u32) },
        }
        Ok(())
    }

    fn write_stack(&mut self, address: u64, _: u64) -> Result<(), Fault> {
        Err(Fault { address })
    }
}

/// Values at the limits of 32 and 64 bits, and some in between.
const VALUES: [u64; 14] = [
    0,
    1,
    0xf,
    0x10,
    0x7f,
    0x80,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX - 1,
    0x0123_4567_89ab_cdef,
];

/// Runs an instruction on rcx and rdx with all values, and r8 with the address of two words that
/// have them too: on the CPU, and emulated from the assembler's output.
macro_rules! computes {
    ($($text:literal),+ $(,)?) => {
        $(for (rcx, rdx) in VALUES.iter().flat_map(|a| VALUES.map(|b| (*a, b))) {
            for flags in [2u64, 2 | 0x8d5] {
                let mut real = Registers { registers: [0; 16], flags };
                let mut memory = [rcx, rdx];
                let operand = memory.as_mut_ptr();
                let (start, end): (*const u8, *const u8);
                // SAFETY: Changes the registers that are named; the stack is as before. Only
                // arithmetic flags are set, none of which raises an exception.
                unsafe {
                    asm!(
                        "lea {start}, [rip + 2f]",
                        "lea {end}, [rip + 3f]",
                        "push {flags}",
                        "popfq",
                        "2:",
                        $text,
                        "3:",
                        "pushfq",
                        "pop {flags}",
                        flags = inout(reg) flags => real.flags,
                        start = out(reg) start,
                        end = out(reg) end,
                        inout("rax") rdx => real.registers[0],
                        inout("rcx") rcx => real.registers[1],
                        inout("rdx") rdx => real.registers[2],
                        inout("r8") operand as u64 => real.registers[8],
                        inout("r9") rcx => real.registers[9],
                    );
                }
                let stored = core::mem::replace(&mut memory, [rcx, rdx]);
                // SAFETY: The bytes of this function between the labels.
                let bytes = unsafe { std::slice::from_raw_parts(start, end.offset_from(start) as usize) };
                let mut ours = Registers { registers: [0; 16], flags };
                (ours.registers[0], ours.registers[2]) = (rdx, rdx);
                (ours.registers[1], ours.registers[9]) = (rcx, rcx);
                ours.registers[8] = memory.as_mut_ptr() as u64;
                let insn = Insn::decode(bytes).expect("an instruction");
                let compute = Compute::of(&insn, start as u64).expect($text);
                assert_eq!(compute.run(&mut ours), Ok(()));
                // RF and IF are the CPU's own matter.
                real.flags = real.flags & !0x1_0200 | flags & 0x1_0200;
                assert_eq!(ours, real, "{} {rcx:x} {rdx:x}", $text);
                assert_eq!(memory, stored, "{} {rcx:x} {rdx:x}", $text);
            }
        })+
    };
}

#[test]
fn arithmetic() {
    computes!(
        "add rcx, rdx",
        "add ecx, edx",
        "add rdx, r9",
        "add r9d, eax",
        "add rcx, 5",
        "add ecx, -5",
        "add rax, 0x12345678",
        "sub rcx, rdx",
        "sub ecx, edx",
        "sub r9, 0x7f",
        "sub edx, -128",
        "sub eax, -2",
        "cmp rcx, rdx",
        "cmp ecx, edx",
        "cmp r9, -1",
        "cmp eax, 0x7fffffff",
        "and rcx, rdx",
        "and ecx, edx",
        "and r9, -16",
        "and eax, 0xff",
        "or rcx, rdx",
        "or ecx, edx",
        "or r9, 1",
        "or rax, -2",
        "xor rcx, rdx",
        "xor ecx, edx",
        "xor eax, eax",
        "xor r9, -1",
        "test rcx, rdx",
        "test ecx, edx",
        "test r9d, 0x80",
        "test eax, 0x80000000",
        "test rcx, -2",
        // The other one of the two opcodes of each.
        ".byte 0x48, 0x03, 0xca",
        ".byte 0x3b, 0xca",
        ".byte 0x4c, 0x2b, 0xc9",
    );
}

#[test]
fn moves() {
    computes!(
        "mov rcx, rdx",
        "mov ecx, edx",
        "mov r9, rax",
        "mov r9d, r9d",
        ".byte 0x48, 0x8b, 0xca",
        "mov ecx, 0x89abcdef",
        "mov rcx, -2",
        "movabs r9, 0x123456789abcdef0",
        "lea rcx, [rdx + 8]",
        "lea ecx, [rdx + r9 * 4 - 1]",
        "lea r9, [rip + 0x100]",
        "lea rax, [rcx * 8]",
        "lea rcx, [ecx + 1]",
        "lea rdx, gs:[rdx]",
    );
}

#[test]
fn operands_in_memory() {
    computes!(
        "mov rcx, [r8]",
        "mov ecx, [r8 + 8]",
        "mov r9d, [r8 + 4]",
        "mov [r8], rdx",
        "mov [r8 + 8], ecx",
        "mov [r8 + 4], r9d",
        "mov qword ptr [r8], -2",
        "mov dword ptr [r8 + 8], 0x89abcdef",
        "add rcx, [r8 + 8]",
        "add ecx, [r8 + 8]",
        "sub r9, [r8 + 8]",
        "and edx, [r8]",
        "or rcx, [r8 + 8]",
        "xor r9d, [r8 + 8]",
        "cmp rdx, [r8]",
        "cmp [r8], rdx",
        "cmp [r8], edx",
        "cmp qword ptr [r8], 0x7f",
        "cmp dword ptr [r8 + 8], -2",
        "cmp qword ptr [r8], 0x12345678",
        "test [r8], rdx",
        "test dword ptr [r8 + 8], 0x80000000",
        "test qword ptr [r8 + 8], -2",
    );
}

#[test]
fn what_has_no_emulation_on_registers() {
    for bytes in [
        // With 8 or 16 bits, read and written in one, relative to a segment, with the carry, with a
        // lock.
        &[0x00, 0xca][..],
        &[0x66, 0x01, 0xca],
        &[0x48, 0x01, 0x0a],
        &[0x48, 0x83, 0x02, 1],
        &[0x66, 0x8b, 0x0a],
        &[0x8a, 0x0a],
        &[0x65, 0x48, 0x8b, 0x0a],
        &[0x48, 0x11, 0xca],
        &[0x48, 0x83, 0xd8, 1],
        &[0xf0, 0x48, 0x01, 0x0a],
        &[0xf7, 0xd1],
        &[0x0f, 0x01, 0xd0],
        &[0x66, 0x50],
    ] {
        let insn = Insn::decode(bytes).expect("an instruction");
        assert_eq!(Compute::of(&insn, 0), None, "{bytes:02x?}");
    }
}
