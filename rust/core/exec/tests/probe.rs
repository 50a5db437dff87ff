// SPDX-License-Identifier: GPL-2.0

use super::*;
use proptest::prelude::*;

fn class(bytes: &[u8]) -> Probe {
    Probe::of(&insn(bytes))
}

#[test]
fn never_probed() {
    for (bytes, rule) in [
        (&[0xcc][..], Unprobeable::Breakpoint),
        (&[0xcd, 0x80], Unprobeable::Breakpoint),
        (&[0xf1], Unprobeable::Breakpoint),
        (&[0x0f, 0x0b], Unprobeable::Undefined),
        (&[0x0f, 0xb9, 0x02], Unprobeable::Undefined),
        (&[0x0f, 0xff, 0xc0], Unprobeable::Undefined),
        (&[0xd6], Unprobeable::Undefined),
        (&[0xf0, 0xc3], Unprobeable::Undefined),
        (&[0xf3, 0x0f, 0x1e, 0xfa], Unprobeable::LandingPad),
        (&[0xf3, 0x0f, 0x1e, 0xfb], Unprobeable::LandingPad),
        (&[0x8e, 0xd0], Unprobeable::StackSegment),
        (&[0x0f, 0xb2, 0x20], Unprobeable::StackSegment),
        (&[0xcb], Unprobeable::FarTransfer),
        (&[0xff, 0x28], Unprobeable::FarTransfer),
        (&[0x48, 0xcf], Unprobeable::InterruptReturn),
        (&[0xf3, 0x0f, 0x01, 0xca], Unprobeable::InterruptReturn),
        (&[0x0f, 0x05], Unprobeable::SystemTransfer),
        (&[0x48, 0x0f, 0x35], Unprobeable::SystemTransfer),
        (&[0x0f, 0x01, 0xf8], Unprobeable::SwapGs),
        (&[0xf4], Unprobeable::Halt),
        (&[0x0f, 0x01, 0xc9], Unprobeable::Halt),
        (&[0x0f, 0x01, 0xfb], Unprobeable::Halt),
        (&[0xc7, 0xf8, 0, 0, 0, 0], Unprobeable::Transaction),
        (&[0xc6, 0xf8, 0], Unprobeable::Transaction),
        (&[0x0f, 0x01, 0xd5], Unprobeable::Transaction),
        (&[0x0f, 0x01, 0xc1], Unprobeable::Hypervisor),
        (&[0x0f, 0x01, 0xd9], Unprobeable::Hypervisor),
        (&[0x66, 0x0f, 0x01, 0xcc], Unprobeable::Hypervisor),
        (&[0x0f, 0x01, 0xc2], Unprobeable::ModeSwitch),
        (&[0x0f, 0xaa], Unprobeable::ModeSwitch),
        (
            &[0x0f, 0x0b, b'x', b'e', b'n', 0x0f, 0xa2],
            Unprobeable::ForcedEmulation,
        ),
        (&[0x66, 0xe8, 0, 0, 0, 0], Unprobeable::VendorDependent),
        (&[0x66, 0xc3], Unprobeable::VendorDependent),
        (&[0x66, 0xff, 0xe0], Unprobeable::VendorDependent),
        (
            &[0x65, 0xff, 0x14, 0x25, 0, 0, 0, 0],
            Unprobeable::OperandOutOfReach,
        ),
        (&[0xd5, 0x11, 0xff, 0xd3], Unprobeable::OperandOutOfReach),
        // jmp *%gs:0; jmp *0x10(%rbx,%r17,8), jmp *0x10(%r19,%rcx,8)
        (
            &[0x65, 0xff, 0x24, 0x25, 0, 0, 0, 0],
            Unprobeable::OperandOutOfReach,
        ),
        (
            &[0xd5, 0x20, 0xff, 0x64, 0xcb, 0x10],
            Unprobeable::OperandOutOfReach,
        ),
        (
            &[0xd5, 0x10, 0xff, 0x64, 0xcb, 0x10],
            Unprobeable::OperandOutOfReach,
        ),
    ] {
        assert_eq!(class(bytes), Probe::Unprobeable(rule), "{bytes:02x?}");
    }
}

#[test]
fn emulated() {
    for bytes in [
        &[0x90][..],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x44, 0, 0],
        &[0xfa],
        &[0xfb],
        &[0x9c],
        &[0x9d],
        &[0xc3],
        &[0xf3, 0xc3],
        &[0xc2, 8, 0],
        &[0xe8, 0, 0, 0, 0],
        &[0x66, 0x48, 0xe8, 0, 0, 0, 0],
        &[0xe9, 0, 0, 0, 0],
        &[0xeb, 0],
        &[0x74, 0],
        &[0x0f, 0x84, 0, 0, 0, 0],
        &[0xe0, 0],
        &[0xe3, 0],
        &[0x3e, 0xff, 0xe0],
        &[0x41, 0xff, 0xd3],
        &[0xff, 0x15, 0, 0, 0, 0],
        &[0xff, 0x24, 0xc5, 0, 0, 0, 0],
    ] {
        assert!(matches!(class(bytes), Probe::Emulate(_)), "{bytes:02x?}");
    }
}

#[test]
fn run_from_a_copy() {
    for bytes in [
        &[0x55][..],
        &[0x48, 0x89, 0xe5],
        &[0x48, 0x8d, 0x05, 0, 0, 0, 0],
        // xchg %rax, %r8; pause; endbr without F3, a nop; clac
        &[0x49, 0x90],
        &[0xf3, 0x90],
        &[0x0f, 0x1e, 0xfa],
        &[0x0f, 0x01, 0xca],
        // mov to ds; pushfw, popfw; push through memory
        &[0x8e, 0xd8],
        &[0x66, 0x9c],
        &[0x66, 0x9d],
        &[0xff, 0x30],
        // nops that are #UD
        &[0xf0, 0x90],
        &[0xf0, 0x0f, 0x1f, 0xc0],
        // rep movsb; lock cmpxchg; wrmsr; vaddps; vprotb (XOP)
        &[0xf3, 0xa4],
        &[0xf0, 0x0f, 0xb1, 0x0f],
        &[0x0f, 0x30],
        &[0xc5, 0xf8, 0x58, 0xc0],
        &[0x8f, 0xe8, 0x78, 0xc0, 0xc0, 1],
    ] {
        assert_eq!(class(bytes), Probe::Boost, "{bytes:02x?}");
    }
    for bytes in [
        &[0xd5, 0x08, 0x89, 0xc0][..],
        &[0x62, 0xf4, 0x7c, 0x08, 0x01, 0xc0],
        &[0x62, 0xf5, 0x7c, 0x08, 0x58, 0xc0],
    ] {
        assert_eq!(class(bytes), Probe::Step(Step::NewEncoding), "{bytes:02x?}");
    }
}

#[test]
fn calls_through_extended_registers() {
    // call *0x10(%r19,%r25,8), with REX2
    let call = insn(&[0xd5, 0x32, 0xff, 0x54, 0xcb, 0x10]);
    assert_eq!(
        Probe::of(&call),
        Probe::Unprobeable(Unprobeable::OperandOutOfReach)
    );
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let Ok(insn) = Insn::decode(&bytes) else { return Ok(()) };
        let _ = Probe::of(&insn);
    }
}
