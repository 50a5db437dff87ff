// SPDX-License-Identifier: GPL-2.0

use super::*;
use std::collections::BTreeMap;

/// Registers, flags and some words of memory; an access to any other memory faults.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fake {
    registers: [u64; 16],
    flags: u64,
    memory: BTreeMap<u64, u64>,
}

/// The lower half.
const LOW: u64 = 0xffff_ffff;

impl Machine for Fake {
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

    fn read(&mut self, address: u64, wide: bool) -> Result<u64, Fault> {
        let value = *self.memory.get(&address).ok_or(Fault { address })?;
        Ok(if wide { value } else { value & LOW })
    }

    fn write(&mut self, address: u64, value: u64, wide: bool) -> Result<(), Fault> {
        let there = self.memory.get_mut(&address).ok_or(Fault { address })?;
        *there = if wide {
            value
        } else {
            *there & !LOW | value & LOW
        };
        Ok(())
    }

    fn calculate(operation: Arithmetic, _: u64, _: u64, _: bool) -> (u64, u64) {
        // Compared with the CPU in `tools/testing/host`.
        panic!("{operation:?} is the CPU's")
    }

    fn write_stack(&mut self, address: u64, value: u64) -> Result<(), Fault> {
        self.write(address, value, true)
    }
}

/// Makes a machine with a stack of three words around 0x8000, each with its own address.
fn fake() -> Fake {
    let mut fake = Fake::default();
    fake.registers[4] = 0x8000;
    fake.flags = 2;
    fake.memory = [0x7ff8, 0x8000, 0x8008].map(|at| (at, at)).into();
    fake
}

fn emulation(bytes: &[u8]) -> Emulation {
    match Probe::of(&insn(bytes)) {
        Probe::Emulate(emulation) => emulation,
        other => panic!("{bytes:02x?} is {other:?}"),
    }
}

/// Runs an instruction at 0x1000.
fn run(bytes: &[u8], fake: &mut Fake) -> Result<u64, Fault> {
    emulation(bytes).run(0x1000, fake)
}

#[test]
fn nothing_changes_by_a_nop() {
    let mut it = fake();
    assert_eq!(run(&[0x0f, 0x1f, 0x44, 0, 0], &mut it), Ok(0x1005));
    assert_eq!(it, fake());
}

#[test]
fn interrupts() {
    let mut it = fake();
    assert_eq!(run(&[0xfb], &mut it), Ok(0x1001));
    assert_eq!(it.flags, 0x202);
    assert_eq!(run(&[0xfa], &mut it), Ok(0x1001));
    assert_eq!(it.flags, 2);
}

#[test]
fn flags_on_the_stack() {
    let mut it = fake();
    // RF and VM are not stored.
    it.flags = 0x3_0246;
    assert_eq!(run(&[0x9c], &mut it), Ok(0x1001));
    assert_eq!((it.registers[4], it.memory[&0x7ff8]), (0x7ff8, 0x246));

    // Reserved bits, VM, VIF and VIP stay; RF is cleared; all others are loaded.
    it.flags = 0x1_0002;
    it.memory.insert(0x7ff8, u64::MAX);
    assert_eq!(run(&[0x9d], &mut it), Ok(0x1001));
    assert_eq!((it.registers[4], it.flags), (0x8000, 0x24_7fd7));
}

#[test]
fn calls_and_returns() {
    let mut it = fake();
    assert_eq!(run(&[0xe8, 0xfb, 0x0f, 0, 0], &mut it), Ok(0x2000));
    assert_eq!((it.registers[4], it.memory[&0x7ff8]), (0x7ff8, 0x1005));
    assert_eq!(run(&[0xc3], &mut it), Ok(0x1005));
    assert_eq!(it.registers[4], 0x8000);
    assert_eq!(run(&[0xc2, 0xf8, 0xff], &mut it), Ok(0x8000));
    assert_eq!(it.registers[4], 0x1_8000);
}

#[test]
fn the_operand_of_a_call_is_read_before_the_push() {
    // call *%rsp; call *-8(%rsp), which the return address will overwrite
    let mut it = fake();
    assert_eq!(run(&[0xff, 0xd4], &mut it), Ok(0x8000));
    assert_eq!((it.registers[4], it.memory[&0x7ff8]), (0x7ff8, 0x1002));
    let mut it = fake();
    assert_eq!(run(&[0xff, 0x54, 0x24, 0xf8], &mut it), Ok(0x7ff8));
    assert_eq!((it.registers[4], it.memory[&0x7ff8]), (0x7ff8, 0x1004));
}

#[test]
fn indirect_jumps() {
    let mut it = fake();
    it.registers[0] = 3;
    it.registers[3] = 0x8000;
    it.registers[11] = 0x1234;
    assert_eq!(run(&[0x41, 0xff, 0xe3], &mut it), Ok(0x1234));
    // jmp *-0x18(%rbx,%rax,8); *0x6ffa(%rip); *0x7fe8(,%rax,8)
    assert_eq!(run(&[0xff, 0x64, 0xc3, 0xf0], &mut it), Ok(0x8008));
    assert_eq!(run(&[0xff, 0x25, 0xfa, 0x6f, 0, 0], &mut it), Ok(0x8000));
    assert_eq!(
        run(&[0xff, 0x24, 0xc5, 0xf0, 0x7f, 0, 0], &mut it),
        Ok(0x8008)
    );
    // With 67 the sum has 32 bits: jmp *(%ebx)
    it.registers[3] = 0x5555_0000_8000;
    assert_eq!(run(&[0x67, 0xff, 0x23], &mut it), Ok(0x8000));
    // r13 and r12 as bases
    it.registers[13] = 0x7ff0;
    it.registers[12] = 0x7ff0;
    assert_eq!(run(&[0x41, 0xff, 0x65, 0x10], &mut it), Ok(0x8000));
    assert_eq!(run(&[0x41, 0xff, 0x64, 0x24, 0x10], &mut it), Ok(0x8000));
}

#[test]
fn conditions() {
    // Each pair, and the flags on which the even one holds: all combinations of CF, PF, ZF, SF, OF.
    for bits in (0..32u64).step_by(if cfg!(miri) { 5 } else { 1 }) {
        let (c, p, z) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let (s, o) = (bits & 8 != 0, bits & 16 != 0);
        let flag = |set: bool, bit: u64| if set { 1 << bit } else { 0 };
        let flags = flag(c, 0) | flag(p, 2) | flag(z, 6) | flag(s, 7) | flag(o, 11);
        let even = [o, c, z, c || z, s, p, s != o, z || (s != o)];
        for (pair, holds) in (0u8..).zip(even) {
            for (opcode, holds) in [(0x70 | pair << 1, holds), (0x71 | pair << 1, !holds)] {
                let mut it = fake();
                it.flags = flags;
                let next = if holds { 0x1012 } else { 0x1002 };
                assert_eq!(
                    run(&[opcode, 0x10], &mut it),
                    Ok(next),
                    "{opcode:x} {flags:x}"
                );
                let next = if holds { 0x1106 } else { 0x1006 };
                let near = [0x0f, opcode + 0x10, 0, 1, 0, 0];
                assert_eq!(run(&near, &mut it), Ok(next), "{opcode:x} {flags:x}");
            }
        }
    }
}

#[test]
fn loops() {
    // Opcode, counter before, ZF; then the jump as a bool, and the counter after.
    let top = 0x1_0000_0000;
    for (bytes, rcx, zero, jumps, after) in [
        (&[0xe2, 0x10][..], 2, false, true, 1),
        (&[0xe2, 0x10], 1, false, false, 0),
        (&[0xe2, 0x10], 0, false, true, u64::MAX),
        (&[0xe1, 0x10], 2, true, true, 1),
        (&[0xe1, 0x10], 2, false, false, 1),
        (&[0xe1, 0x10], 1, true, false, 0),
        (&[0xe0, 0x10], 2, false, true, 1),
        (&[0xe0, 0x10], 2, true, false, 1),
        (&[0xe3, 0x10], 0, false, true, 0),
        (&[0xe3, 0x10], top, false, false, top),
        (&[0x67, 0xe3, 0x10], top, false, true, top),
        (&[0x67, 0xe2, 0x10], top, false, true, 0xffff_ffff),
        (&[0x67, 0xe2, 0x10], top + 1, false, false, 0),
    ] {
        let mut it = fake();
        it.registers[1] = rcx;
        it.flags = if zero { 0x40 } else { 0 };
        let next = 0x1000 + if jumps { 0x10 } else { 0 } + u64::try_from(bytes.len()).unwrap();
        assert_eq!(run(bytes, &mut it), Ok(next), "{bytes:02x?} {rcx:x}");
        assert_eq!(it.registers[1], after, "{bytes:02x?} {rcx:x}");
    }
}

#[test]
fn a_fault_changes_nothing() {
    // No stack; for the last, a stack, but no memory at the target.
    for (bytes, address) in [
        (&[0xe8, 0, 0, 0, 0][..], 0x4ff8),
        (&[0x9c], 0x4ff8),
        (&[0x9d], 0x5000),
        (&[0xc2, 8, 0], 0x5000),
        (&[0xff, 0xd0], 0x4ff8),
        (&[0xff, 0x10], 0),
    ] {
        let mut it = fake();
        it.registers[4] = 0x5000;
        let before = it.clone();
        assert_eq!(run(bytes, &mut it), Err(Fault { address }), "{bytes:02x?}");
        assert_eq!(it, before, "{bytes:02x?}");
    }
}

/// Runs an instruction that a copy could execute as well.
fn run_on_registers(bytes: &[u8], fake: &mut Fake) -> Result<(), Fault> {
    Compute::of(&insn(bytes), 0x1000).unwrap().run(fake)
}

#[test]
fn push_and_pop() {
    let mut it = fake();
    it.registers[10] = 0x77;
    assert_eq!(run_on_registers(&[0x41, 0x52], &mut it), Ok(()));
    assert_eq!((it.registers[4], it.memory[&0x7ff8]), (0x7ff8, 0x77));
    assert_eq!(run_on_registers(&[0x5b], &mut it), Ok(()));
    assert_eq!((it.registers[4], it.registers[3]), (0x8000, 0x77));
}

#[test]
fn the_stack_pointer_is_pushed_as_it_was_and_popped_last() {
    let mut it = fake();
    assert_eq!(run_on_registers(&[0x54], &mut it), Ok(()));
    assert_eq!((it.registers[4], it.memory[&0x7ff8]), (0x7ff8, 0x8000));
    assert_eq!(run_on_registers(&[0x5c], &mut it), Ok(()));
    assert_eq!(it.registers[4], 0x8000);
}

#[test]
fn a_push_that_faults_changes_nothing() {
    let mut it = fake();
    it.registers[4] = 0x100;
    let before = it.clone();
    assert_eq!(
        run_on_registers(&[0x50], &mut it),
        Err(Fault { address: 0xf8 })
    );
    assert_eq!(it, before);
}

#[test]
fn operands_in_memory() {
    let mut it = fake();
    it.registers[3] = 0x8000;
    it.registers[1] = 0x1122_3344_5566_7788;
    // mov 8(%rbx), %rdx; mov %rcx, (%rbx); movl $-2, -8(%rbx); mov (%rbx), %eax
    for bytes in [
        &[0x48, 0x8b, 0x53, 8][..],
        &[0x48, 0x89, 0x0b],
        &[0xc7, 0x43, 0xf8, 0xfe, 0xff, 0xff, 0xff],
        &[0x8b, 0x03],
    ] {
        assert_eq!(run_on_registers(bytes, &mut it), Ok(()), "{bytes:02x?}");
    }
    assert_eq!(it.registers[2], 0x8008);
    assert_eq!(it.memory[&0x8000], 0x1122_3344_5566_7788);
    assert_eq!(it.memory[&0x7ff8], 0xffff_fffe);
    assert_eq!(it.registers[0], 0x5566_7788);
}

#[test]
fn an_operand_relative_to_the_instruction_pointer() {
    let mut it = fake();
    // mov 0x6ff9(%rip), %rax, of 7 bytes, at 0x1000
    let bytes = [0x48, 0x8b, 0x05, 0xf9, 0x6f, 0, 0];
    assert_eq!(run_on_registers(&bytes, &mut it), Ok(()));
    assert_eq!(it.registers[0], 0x8000);
}

#[test]
fn an_operand_that_faults_changes_nothing() {
    // mov, add and cmp from memory, mov and movl to it
    for bytes in [
        &[0x48, 0x8b, 0x0b][..],
        &[0x48, 0x03, 0x0b],
        &[0x48, 0x39, 0x0b],
        &[0x48, 0x89, 0x0b],
        &[0xc7, 0x03, 0, 0, 0, 0],
    ] {
        let mut it = fake();
        it.registers[3] = 0x9000;
        let before = it.clone();
        assert!(Compute::of(&insn(bytes), 0)
            .unwrap()
            .has_operand_in_memory());
        assert_eq!(
            run_on_registers(bytes, &mut it),
            Err(Fault { address: 0x9000 })
        );
        assert_eq!(it, before, "{bytes:02x?}");
    }
}

#[test]
fn where_jumps_and_nops_go_is_known_before() {
    // nop, nopl (%rax), jmp +0x10, jmp -2, jmp 0x12345678
    for bytes in [
        &[0x90][..],
        &[0x0f, 0x1f, 0],
        &[0xeb, 0x10],
        &[0xeb, 0xfe],
        &[0xe9, 0x78, 0x56, 0x34, 0x12],
    ] {
        let mut it = fake();
        let before = it.clone();
        let went = run(bytes, &mut it);
        assert_eq!(it, before, "{bytes:02x?}");
        let known = emulation(bytes).destination(0x1000);
        assert_eq!(Ok(known.unwrap()), went, "{bytes:02x?}");
    }
    // je, call, ret, jmp *%rax, cli, push of the flags
    for bytes in [
        &[0x74, 0][..],
        &[0xe8, 0, 0, 0, 0],
        &[0xc3],
        &[0xff, 0xe0],
        &[0xfa],
        &[0x9c],
    ] {
        assert_eq!(emulation(bytes).destination(0x1000), None, "{bytes:02x?}");
    }
}
