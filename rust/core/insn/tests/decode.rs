// SPDX-License-Identifier: GPL-2.0

use super::*;
use proptest::prelude::*;

/// Returns the parts of an instruction: its length, and the positions of displacement and
/// immediate.
fn parts(bytes: &[u8]) -> (usize, (u8, u8), (u8, u8)) {
    let insn = Insn::decode(bytes).unwrap();
    let pair = |field: Field| (field.at, field.len);
    (
        insn.len(),
        pair(insn.displacement_field()),
        pair(insn.immediate_field()),
    )
}

fn refused(bytes: &[u8]) -> DecodeError {
    Insn::decode(bytes).unwrap_err()
}

#[test]
fn immediates_follow_the_operand_size() {
    // mov imm, %eax / %ax / %rax
    assert_eq!(insn(&[0xb8, 1, 2, 3, 4]).immediate(), 0x0403_0201);
    assert_eq!(insn(&[0x66, 0xb8, 1, 0x80]).immediate(), -0x7fff);
    let wide = insn(&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(wide.immediate(), 0x0807_0605_0403_0201);
    // REX.W takes precedence over 66.
    assert_eq!(insn(&[0x66, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]).len(), 11);
    // add imm32, %rax: only the immediate of mov has 8 bytes.
    assert_eq!(insn(&[0x48, 0x05, 0, 0, 0, 0x80]).immediate(), -0x8000_0000);
    // push imm16
    assert_eq!(insn(&[0x66, 0x68, 1, 2]).len(), 4);
}

#[test]
fn near_branches_ignore_the_operand_size() {
    assert_eq!(insn(&[0x66, 0xe8, 0, 0, 0, 0]).len(), 6);
    assert_eq!(insn(&[0x66, 0x0f, 0x84, 0, 0, 0, 0]).len(), 7);
    // The distance of xbegin does.
    assert_eq!(insn(&[0x66, 0xc7, 0xf8, 0, 0]).len(), 5);
}

#[test]
fn addresses_follow_the_address_size() {
    assert_eq!(insn(&[0xa1, 1, 2, 3, 4, 5, 6, 7, 8]).len(), 9);
    assert_eq!(insn(&[0x67, 0xa1, 1, 2, 3, 4]).len(), 6);
    // A displacement has 4 bytes nevertheless.
    assert_eq!(insn(&[0x67, 0x8b, 0x05, 1, 2, 3, 4]).len(), 7);
}

#[test]
fn group_3_has_an_immediate_in_two_members() {
    assert_eq!(parts(&[0xf6, 0xc0, 1]).2, (2, 1));
    assert_eq!(parts(&[0xf6, 0xc8, 1]).2, (2, 1));
    assert_eq!(parts(&[0xf6, 0xd0, 1]).2, (2, 0));
    assert_eq!(parts(&[0xf7, 0xc0, 1, 2, 3, 4]).2, (2, 4));
    assert_eq!(parts(&[0x66, 0xf7, 0x08, 1, 2]).2, (3, 2));
    assert_eq!(parts(&[0xf7, 0xd8, 1]).2, (2, 0));
}

#[test]
fn memory_operands() {
    // (%rax), 8(%rax), 0x100(%rax), (%rax,%rax), 0x100(,%rax), 8(%rbp)
    assert_eq!(parts(&[0x8b, 0x00]), (2, (2, 0), (2, 0)));
    assert_eq!(parts(&[0x8b, 0x40, 8]), (3, (2, 1), (3, 0)));
    assert_eq!(parts(&[0x8b, 0x80, 0, 1, 0, 0]), (6, (2, 4), (6, 0)));
    assert_eq!(parts(&[0x8b, 0x04, 0x00]), (3, (3, 0), (3, 0)));
    assert_eq!(parts(&[0x8b, 0x04, 0x05, 0, 1, 0, 0]), (7, (3, 4), (7, 0)));
    assert_eq!(parts(&[0x8b, 0x44, 0x05, 8]), (4, (3, 1), (4, 0)));
    // movl $imm, 8(%rsp)
    let mov = insn(&[0xc7, 0x44, 0x24, 0xf8, 1, 0, 0, 0]);
    assert_eq!((mov.displacement(), mov.immediate()), (-8, 1));
    assert_eq!(mov.sib(), Some(0x24));
}

#[test]
fn odd_operands() {
    // enter $0x10, $1; extrq and insertq with two immediates; vmread without
    assert_eq!(insn(&[0xc8, 0x10, 0, 1]).len(), 4);
    assert_eq!(insn(&[0x66, 0x0f, 0x78, 0xc0, 1, 2]).len(), 6);
    assert_eq!(insn(&[0xf2, 0x0f, 0x78, 0xc0, 1, 2]).len(), 6);
    assert_eq!(insn(&[0x0f, 0x78, 0xc0]).len(), 3);
    assert_eq!(insn(&[0x66, 0xf3, 0x0f, 0x78, 0xc0]).len(), 5);
    // The opcode of 3DNow! follows the operands: pfadd 8(%rax), %mm0
    assert_eq!(insn(&[0x0f, 0x0f, 0x40, 8, 0x9e]).immediate_field().at, 4);
    // mov %cr0, %rax with any mode, which in other opcodes would need SIB and displacement
    assert_eq!(insn(&[0x0f, 0x20, 0x04]).len(), 3);
    assert!(!insn(&[0x0f, 0x20, 0x05]).is_rip_relative());
    // popcnt has F3.
    assert_eq!(insn(&[0xf3, 0x0f, 0xb8, 0xc0]).len(), 4);
    assert_eq!(
        refused(&[0x0f, 0xb8, 0xc0, 0, 0, 0]),
        DecodeError::Undefined
    );
}

#[test]
fn vector_prefixes() {
    // vzeroupper; vpshufd $1, %xmm0, %xmm0; vaddps, all in two ways
    assert_eq!(insn(&[0xc5, 0xf8, 0x77]).len(), 3);
    assert_eq!(insn(&[0xc4, 0xe1, 0x79, 0x70, 0xc0, 1]).len(), 6);
    assert_eq!(insn(&[0x62, 0xf1, 0x7d, 0x48, 0x70, 0xc0, 1]).len(), 7);
    // vaddps 0x10(%rip), %zmm0, %zmm0
    let add = insn(&[0x62, 0xf1, 0x7c, 0x48, 0x58, 0x05, 0x10, 0, 0, 0]);
    assert_eq!(add.encoding(), Encoding::Evex);
    assert_eq!(add.rip_relative_target(0x1000), Some(0x101a));
    // XOP's map A has an immediate of 4 bytes; 8F with a lower map is pop.
    assert_eq!(insn(&[0x8f, 0xea, 0x78, 0x10, 0xc0, 1, 2, 3, 4]).len(), 9);
    assert_eq!(insn(&[0x8f, 0x00]).encoding(), Encoding::Legacy);
    assert_eq!(insn(&[0x8f, 0xc0]).encoding(), Encoding::Legacy);
    assert_eq!(refused(&[0x8f, 0xe0]), DecodeError::Undefined);
    // The prefixes that a vector prefix replaces must not precede it.
    for prefix in [0x66, 0xf0, 0xf2, 0xf3, 0x48] {
        assert_eq!(
            refused(&[prefix, 0xc5, 0xf8, 0x58, 0xc0, 0, 0]),
            DecodeError::Undefined
        );
    }
    assert_eq!(insn(&[0x65, 0xc5, 0xf8, 0x58, 0x00]).len(), 5);
}

#[test]
fn extended_registers() {
    // REX2: mov, in both maps; jmpabs; invalid combinations
    assert_eq!(insn(&[0xd5, 0x08, 0x89, 0xc0]).len(), 4);
    assert_eq!(insn(&[0xd5, 0x80, 0xaf, 0xc0]).len(), 4);
    assert_eq!(insn(&[0xd5, 0x08, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]).len(), 11);
    let jmpabs = insn(&[0xd5, 0x00, 0xa1, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(jmpabs.branch_target(0), Some(0x0807_0605_0403_0201));
    for bytes in [
        [0xd5, 0x00, 0x74],
        [0xd5, 0x00, 0xa4],
        [0xd5, 0x00, 0xe8],
        [0xd5, 0x80, 0x31],
        [0xd5, 0x80, 0x38],
        [0xd5, 0x80, 0x84],
    ] {
        assert_eq!(refused(&bytes), DecodeError::Undefined);
    }
    assert_eq!(
        refused(&[0x48, 0xd5, 0x08, 0x89, 0xc0]),
        DecodeError::Undefined
    );
    // No other prefix and no escape may follow it.
    let prefixes = [0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x62, 0x64, 0x65, 0x66, 0x67];
    let more = [0xc4, 0xc5, 0xd5, 0xf0, 0xf2, 0xf3];
    for byte in prefixes.into_iter().chain(0x40..=0x4f).chain(more) {
        let bytes = [0xd5, 0x00, byte, 0, 0, 0, 0, 0];
        assert_eq!(refused(&bytes), DecodeError::Undefined, "{byte:02x}");
    }
    // EVEX map 4: shld, shrd, imul, group 1 and shifts with a byte.
    for opcode in [0x24, 0x2c, 0x6b, 0x80, 0x83, 0xc0, 0xc1] {
        assert_eq!(insn(&[0x62, 0xf4, 0x7c, 0x18, opcode, 0xc0, 1]).len(), 7);
    }
    // add $imm, with an operand size of 16 bits in the prefix, and without
    assert_eq!(insn(&[0x62, 0xf4, 0x7d, 0x08, 0x81, 0xc0, 1, 2]).len(), 8);
    assert_eq!(
        insn(&[0x62, 0xf4, 0x7c, 0x08, 0x81, 0xc0, 1, 2, 3, 4]).len(),
        10
    );
    assert_eq!(
        insn(&[0x62, 0xf4, 0xfd, 0x08, 0x81, 0xc0, 1, 2, 3, 4]).len(),
        10
    );
    assert_eq!(insn(&[0x62, 0xf4, 0x7c, 0x08, 0xf6, 0xc0, 1]).len(), 7);
    assert_eq!(insn(&[0x62, 0xf4, 0x7c, 0x08, 0xf7, 0xd0]).len(), 6);
}

#[test]
fn rex_counts_before_the_opcode_only() {
    // 48 is lost: mov $imm16, %ax
    assert_eq!(insn(&[0x48, 0x66, 0xb8, 1, 2]).len(), 5);
    assert_eq!(insn(&[0x48, 0x40, 0xb8, 1, 2, 3, 4]).len(), 7);
}

#[test]
fn at_most_15_bytes() {
    let mut nop = [0x66; 17];
    nop[14] = 0x90;
    assert_eq!(Insn::decode(&nop).unwrap().len(), 15);
    nop[14] = 0x66;
    nop[15] = 0x90;
    assert_eq!(refused(&nop), DecodeError::TooLong);
    assert_eq!(refused(&nop[..14]), DecodeError::Truncated);
    assert_eq!(refused(&nop[..15]), DecodeError::TooLong);
    // An immediate beyond 15 bytes, although the bytes end before.
    let mut add = [0x2e; 15];
    add[11] = 0x05;
    assert_eq!(refused(&add[..13]), DecodeError::TooLong);
    assert_eq!(refused(&[]), DecodeError::Truncated);
}

#[test]
fn what_is_none() {
    for bytes in [
        &[0x06][..],
        &[0x82, 0, 0],
        &[0x9a],
        &[0xce],
        &[0xea],
        &[0x0f, 0x04],
        &[0x0f, 0x24, 0],
        &[0xfe, 0xd0],
        &[0xff, 0xf8],
        &[0xc6, 0xc8, 0],
        &[0xc7, 0xc8, 0, 0, 0, 0],
    ] {
        assert_eq!(refused(bytes), DecodeError::Undefined, "{bytes:02x?}");
    }
}

#[test]
fn forced_emulation_is_a_prefix() {
    let cpuid = insn(&[0x0f, 0x0b, b'x', b'e', b'n', 0x0f, 0xa2]);
    assert!(cpuid.is_forced_emulation());
    assert_eq!((cpuid.opcode(), cpuid.opcode_field().at), (0xa2, 6));
    assert!(insn(&[0x0f, 0x0b, b'k', b'v', b'm', 0x90]).is_forced_emulation());
    assert_eq!(Insn::decode(&[0x0f, 0x0b, b'x', b'e']).unwrap().len(), 2);
}

#[test]
fn boundaries() {
    let text = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xc3];
    let starts: Vec<usize> = (0..=text.len())
        .filter(|at| Boundaries::is_boundary(&text, *at) == Ok(true))
        .collect();
    assert_eq!(starts, [0, 4, 5, 8, 9]);
    assert_eq!(Boundaries::is_boundary(&text, 10), Ok(false));
    // The rest after an invalid instruction is unknown.
    let text = [0x90, 0x06, 0x90];
    assert_eq!(Boundaries::is_boundary(&text, 1), Ok(true));
    assert_eq!(
        Boundaries::is_boundary(&text, 2),
        Err(DecodeError::Undefined)
    );
    assert_eq!(Boundaries::new(&text).count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 16 } else { 20_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// For any bytes: nothing panics, and the fields follow each other up to the end.
    #[test]
    fn fields_are_in_order(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let Ok(insn) = Insn::decode(&bytes) else { return Ok(()) };
        prop_assert!((1..=MAX_LEN).contains(&insn.len()));
        prop_assert_eq!(insn.bytes(), &bytes[..insn.len()]);
        let mut end = 0;
        for field in [
            insn.opcode_field(),
            insn.modrm_field(),
            insn.displacement_field(),
            insn.immediate_field(),
        ] {
            if field.len != 0 {
                prop_assert!(field.at >= end);
                end = field.at + field.len;
            }
        }
        // Only a SIB byte may follow ModRM.
        let after = insn.displacement_field().len + insn.immediate_field().len;
        let sib = u8::from(insn.sib().is_some() && after == 0);
        prop_assert_eq!(usize::from(end + sib), insn.len());
        let _ = (insn.flow(), insn.memory_operand());
    }
}
