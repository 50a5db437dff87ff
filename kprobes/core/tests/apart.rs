// SPDX-License-Identifier: GPL-2.0

use super::*;
use std::vec::Vec;

const AT: u64 = 0xffff_ffff_8100_0000;
const TO: u64 = AT + 0x1000;
const DONE: u64 = AT + 0x2000;
/// Offsets as in `struct pt_regs`.
const SAVED: Saved = Saved {
    registers: [
        80, 88, 96, 40, 152, 32, 104, 112, 72, 64, 56, 48, 24, 16, 8, 0,
    ],
    flags: 144,
};

const PLATFORM: Platform = Platform {
    landing_pad: false,
    address_bits: 48,
};

fn apart(bytes: &[u8]) -> Option<(Vec<u8>, Apart)> {
    apart_on(PLATFORM, bytes)
}

fn apart_on(platform: Platform, bytes: &[u8]) -> Option<(Vec<u8>, Apart)> {
    let mut out = [0; MAX_APART];
    let apart = write_apart(&insn(bytes), AT, &SAVED, platform, TO, DONE, &mut out)?;
    Some((out[..apart.len].to_vec(), apart))
}

/// `xor %eax, %eax; jmp DONE` at this offset.
fn end(at: usize) -> Vec<u8> {
    let distance = (DONE - TO) as i32 - at as i32 - 7;
    [&[0x31, 0xc0, 0xe9][..], &distance.to_le_bytes()].concat()
}

#[test]
fn registers_and_flags_are_moved() {
    // imul %rcx, %rdi: rax has the address of the registers, and rdx the flags.
    let (code, apart) = apart(&[0x48, 0x0f, 0xaf, 0xf9]).unwrap();
    let mut expected = [
        &[0x48, 0x89, 0xf8][..],
        &[0x48, 0x8b, 0x88, 88, 0, 0, 0],
        &[0x48, 0x8b, 0xb8, 112, 0, 0, 0],
        &[0x48, 0x0f, 0xaf, 0xf9],
        &[0x48, 0x89, 0xb8, 112, 0, 0, 0],
        &[0x9c, 0x40, 0x5a, 0x48, 0x33, 0x90, 144, 0, 0, 0],
        &[0x40, 0x81, 0xe2, 0xd5, 8, 0, 0],
        &[0x48, 0x31, 0x90, 144, 0, 0, 0],
    ]
    .concat();
    expected.extend(end(expected.len()));
    assert_eq!(code, expected);
    assert_eq!(apart.access, None);
}

#[test]
fn interrupts_stay_off() {
    // setb %al: rcx has the flags.
    let (code, _) = apart(&[0x0f, 0x92, 0xc0]).unwrap();
    let popped = [
        0x48, 0x8b, 0x8f, 144, 0, 0, 0, 0x40, 0x81, 0xe1, 0xd5, 8, 0, 0, 0x40, 0x51, 0x9d,
    ];
    // After rax.
    assert_eq!(code[7..24], popped);
}

#[test]
fn memory_is_checked_first() {
    // movzbl 8(%rax,%rbx,4), %ecx
    let movzbl = [0x0f, 0xb6, 0x4c, 0x98, 8];
    let (code, apart) = apart(&movzbl).unwrap();
    let access = apart.access.unwrap();
    assert_eq!(code[access..access + movzbl.len()], movzbl);
    let lea = [0x48, 0x8d, 0x94, 0x98, 8, 0, 0, 0];
    // rax and rbx are loaded before, and rcx is only written.
    assert_eq!(code[14..22], lea);
    assert_eq!(code[22..29], [0x48, 0xc1, 0xfa, 47, 0x48, 0xff, 0xc2]);
    assert_eq!(code[29], 0x75);
    assert_eq!(31 + usize::from(code[30]), apart.failed);
    assert_eq!(code[31..39], lea);
    assert_eq!(code[39..46], [0x48, 0x2b, 0x97, 152, 0, 0, 0]);
    assert_eq!(code[46..53], [0x48, 0x81, 0xfa, 0, 0xf0, 0xff, 0xff]);
    assert_eq!(code[53], 0x73);
    assert_eq!(55 + usize::from(code[54]), apart.failed);
    assert_eq!(access, 55);
    assert_eq!(code[apart.failed..apart.failed + 5], [0xb8, 1, 0, 0, 0]);
}

/// With page tables of five levels more addresses belong to the kernel.
#[test]
fn addresses_may_have_more_bits() {
    let movzbl = [0x0f, 0xb6, 0x4c, 0x98, 8];
    let (four, _) = apart(&movzbl).unwrap();
    let platform = Platform {
        address_bits: 57,
        ..PLATFORM
    };
    let (five, _) = apart_on(platform, &movzbl).unwrap();
    assert_eq!(five[22..26], [0x48, 0xc1, 0xfa, 56]);
    let differ = four.iter().zip(&five).filter(|(a, b)| a != b).count();
    assert_eq!((differ, four.len()), (1, five.len()));
}

#[test]
fn code_may_begin_with_a_landing_pad() {
    let platform = Platform {
        landing_pad: true,
        ..PLATFORM
    };
    let (code, _) = apart_on(platform, &[0x0f, 0x92, 0xc0]).unwrap();
    assert_eq!(code[..4], [0xf3, 0x0f, 0x1e, 0xfa]);
}

#[test]
fn others_are_left_to_copies() {
    let codes: [&[u8]; 9] = [
        &[0x51],                      // push %rcx
        &[0x48, 0x83, 0xec, 8],       // sub $8, %rsp
        &[0x0f, 0xb6, 0x44, 0x24, 8], // movzbl 8(%rsp), %eax
        &[0xf3, 0xa4],                // rep movsb
        &[0x48, 0xf7, 0xf1],          // div %rcx
        &[0x48, 0x0f, 0xa3, 0x07],    // bt %rax, (%rdi)
        &[0x65, 0x0f, 0xb6, 0x07],    // movzbl %gs:(%rdi), %eax
        &[0x0f, 0x28, 0xc1],          // movaps %xmm1, %xmm0
        &[0xc5, 0xf8, 0x28, 0xc1],    // vmovaps %xmm1, %xmm0
    ];
    for code in codes {
        assert_eq!(apart(code), None, "{code:02x?}");
    }
}

#[test]
fn nothing_is_written_beyond_the_room() {
    let movzbl = insn(&[0x0f, 0xb6, 0x4c, 0x98, 8]);
    let whole = apart(movzbl.bytes()).unwrap().1.len;
    for room in 0..whole {
        let mut out = [0; MAX_APART];
        let out = &mut out[..room];
        assert_eq!(
            write_apart(&movzbl, AT, &SAVED, PLATFORM, TO, DONE, out),
            None
        );
    }
}
