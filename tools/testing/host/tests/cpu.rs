// SPDX-License-Identifier: GPL-2.0

//! The emulation against this machine's CPU, for what user space may execute.

#![cfg(target_arch = "x86_64")]

use ferro_core::insn::Emulation;
use ferro_core::insn::Fault;
use ferro_core::insn::Insn;
use ferro_core::insn::Machine;
use ferro_core::insn::Probe;
use ferro_core::insn::Register;
use std::arch::asm;

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

    fn read(&mut self, address: u64) -> Result<u64, Fault> {
        Err(Fault { address })
    }

    fn write(&mut self, address: u64, _: u64) -> Result<(), Fault> {
        Err(Fault { address })
    }
}

fn emulation(bytes: &[u8]) -> Emulation {
    let insn = Insn::decode(bytes).expect("an instruction");
    assert_eq!(insn.len(), bytes.len());
    match Probe::of(&insn) {
        Probe::Emulate(emulation) => emulation,
        other => panic!("{bytes:02x?} is {other:?}"),
    }
}

/// Emulates a jump over 16 bytes; whether it was taken, and the counter afterwards.
fn emulated(bytes: &[u8], rcx: u64, flags: u64) -> (bool, u64) {
    let mut machine = Counter { rcx, flags };
    let next = emulation(bytes)
        .run(0x1000, &mut machine)
        .expect("it does not use memory");
    let behind = 0x1000 + bytes.len() as u64;
    assert!(next == behind || next == behind + 0x10);
    (next != behind, machine.rcx)
}

/// Executes a jump with these flags and this counter; whether it was taken, and the counter afterwards.
macro_rules! executed {
    ($($jump:literal),+; $rcx:expr, $flags:expr) => {{
        let (mut rcx, taken): (u64, u64);
        rcx = $rcx;
        // SAFETY: The flags are arithmetic ones, which nothing behind relies on; the stack is as before.
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
