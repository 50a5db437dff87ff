// SPDX-License-Identifier: GPL-2.0

use super::*;

#[test]
fn relative_targets() {
    for (bytes, target) in [
        (&[0xeb, 0xfe][..], 0x1000),
        (&[0xe9, 0x10, 0, 0, 0], 0x1015),
        (&[0xe8, 0xfb, 0xff, 0xff, 0xff], 0x1000),
        (&[0x74, 0x7f], 0x1081),
        (&[0x2e, 0x75, 0x80], 0xf83),
        (&[0x0f, 0x85, 0, 1, 0, 0], 0x1106),
        (&[0xe2, 0xfe], 0x1000),
        (&[0x67, 0xe3, 0], 0x1003),
        (&[0xc7, 0xf8, 1, 0, 0, 0], 0x1007),
    ] {
        assert_eq!(
            insn(bytes).branch_target(0x1000),
            Some(target),
            "{bytes:02x?}"
        );
    }
    // Across the end of the address space.
    assert_eq!(insn(&[0xeb, 0x10]).branch_target(u64::MAX - 1), Some(0x10));
    assert_eq!(insn(&[0xff, 0xe0]).branch_target(0x1000), None);
    assert_eq!(insn(&[0x90]).branch_target(0x1000), None);
}

#[test]
fn indirect_targets() {
    let register = |number| Target::Register(Register::new(number));
    assert_eq!(insn(&[0xff, 0xe0]).flow(), Flow::Jump(register(0)));
    assert_eq!(insn(&[0x41, 0xff, 0xd3]).flow(), Flow::Call(register(11)));
    assert_eq!(
        insn(&[0xd5, 0x11, 0xff, 0xd3]).flow(),
        Flow::Call(register(27))
    );
    // call *0x10(%rbx,%r9,8)
    let call = insn(&[0x42, 0xff, 0x54, 0xcb, 0x10]);
    let memory = Memory {
        base: Some(Register::new(3)),
        index: Some((Register::new(9), 3)),
        rip_relative: false,
        displacement: 0x10,
        segment: None,
        truncated: false,
    };
    assert_eq!(call.flow(), Flow::Call(Target::Memory(memory)));
    // The same with r19 and r25 (REX2).
    let call = insn(&[0xd5, 0x32, 0xff, 0x54, 0xcb, 0x10]);
    let extended = Memory {
        base: Some(Register::new(19)),
        index: Some((Register::new(25), 3)),
        ..memory
    };
    assert_eq!(call.flow(), Flow::Call(Target::Memory(extended)));
    // jmp *%gs:0x10, by SIB without base and index
    let jump = insn(&[0x65, 0xff, 0x24, 0x25, 0x10, 0, 0, 0]);
    let memory = Memory {
        base: None,
        index: None,
        segment: Some(Segment::Gs),
        ..memory
    };
    assert_eq!(jump.flow(), Flow::Jump(Target::Memory(memory)));
    // call *0x10(%rip)
    let call = insn(&[0xff, 0x15, 0x10, 0, 0, 0]);
    let memory = Memory {
        segment: None,
        rip_relative: true,
        ..memory
    };
    assert_eq!(call.flow(), Flow::Call(Target::Memory(memory)));
    // 0x10(%r13) and 0x10(%r12): bases 5 and 4, encoded in another way
    for (bytes, base) in [
        (&[0x41, 0xff, 0x55, 0x10][..], 13),
        (&[0x41, 0xff, 0x54, 0x24, 0x10], 12),
    ] {
        let Flow::Call(Target::Memory(memory)) = insn(bytes).flow() else {
            panic!("no call");
        };
        assert_eq!(memory.base, Some(Register::new(base)));
        assert_eq!(memory.index, None);
    }
}

#[test]
fn returns_and_traps() {
    for (bytes, flow) in [
        (&[0xc3][..], Flow::Return(0)),
        (&[0xf3, 0xc3], Flow::Return(0)),
        (&[0xc2, 0xff, 0xff], Flow::Return(0xffff)),
        (&[0xcb], Flow::FarReturn),
        (&[0x48, 0xcf], Flow::InterruptReturn),
        (&[0xcc], Flow::Interrupt(3)),
        (&[0xcd, 0x80], Flow::Interrupt(0x80)),
        (&[0xf1], Flow::Interrupt(1)),
        (&[0xf4], Flow::Halt),
        (&[0x0f, 0x0b], Flow::Undefined),
        (&[0x0f, 0xb9, 0xc0], Flow::Undefined),
        (&[0x0f, 0x05], Flow::SystemCall),
        (&[0x48, 0x0f, 0x07], Flow::SystemReturn),
        (&[0xff, 0x18], Flow::FarCall),
        (&[0xff, 0x28], Flow::FarJump),
        (&[0x0f, 0x01, 0xca], Flow::Next),
        (&[0xf3, 0x0f, 0x01, 0xca], Flow::InterruptReturn),
        (&[0xff, 0x30], Flow::Next),
    ] {
        assert_eq!(insn(bytes).flow(), flow, "{bytes:02x?}");
    }
}
