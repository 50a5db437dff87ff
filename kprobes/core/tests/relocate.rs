// SPDX-License-Identifier: GPL-2.0

use super::*;
use proptest::prelude::*;

/// `lea 0x10(%rip), %rax`
const LEA: [u8; 7] = [0x48, 0x8d, 0x05, 0x10, 0, 0, 0];

#[test]
fn the_operand_stays() {
    // cmpl $1, 0x10(%rip): an immediate follows the displacement.
    let cmp = insn(&[0x83, 0x3d, 0x10, 0, 0, 0, 1]);
    let mut out = [0xcc; 16];
    for to in [
        0xffff_ffff_8000_0000,
        0xffff_ffff_c000_0000,
        0xffff_ffff_8100_0000,
    ] {
        assert_eq!(relocate(&cmp, 0xffff_ffff_8100_0000, to, &mut out), Ok(7));
        let copy = insn(&out[..7]);
        assert_eq!(copy.rip_relative_target(to), Some(0xffff_ffff_8100_0017));
        assert_eq!(copy.immediate(), 1);
        assert_eq!(out[7], 0xcc);
    }
}

#[test]
fn the_reach_is_32_bits() {
    let lea = insn(&LEA);
    let mut out = [0; 16];
    let mut aim = |to: u64| relocate(&lea, 0x1_0000_0000, to, &mut out);
    let (high, low) = (0x8000_0000 - 0x10 - 1, 0x8000_0000 + 0x10);
    assert_eq!(aim(0x1_0000_0000 - high), Ok(7));
    assert_eq!(
        aim(0x1_0000_0000 - high - 1),
        Err(RelocateError::OutOfReach)
    );
    assert_eq!(aim(0x1_0000_0000 + low), Ok(7));
    assert_eq!(aim(0x1_0000_0000 + low + 1), Err(RelocateError::OutOfReach));
    // Around the end of the address space.
    assert_eq!(relocate(&lea, 0x1000, u64::MAX - 0xfff, &mut out), Ok(7));
    assert_eq!(
        insn(&out[..7]).rip_relative_target(u64::MAX - 0xfff),
        Some(0x1017)
    );
    // A failure does not change the buffer.
    let mut out = [0xcc; 16];
    assert!(relocate(&lea, 0, 1 << 40, &mut out).is_err());
    assert_eq!(out, [0xcc; 16]);
}

#[test]
fn an_operand_of_32_bits_is_always_within_reach() {
    // mov 0x10(%eip), %eax
    let mov = insn(&[0x67, 0x8b, 0x05, 0x10, 0, 0, 0]);
    let mut out = [0; 16];
    let (from, to) = (0xffff_ffff_8100_0000, 0x1234_5678_9abc);
    assert_eq!(mov.rip_relative_target(from), Some(0x8100_0017));
    assert_eq!(relocate(&mov, from, to, &mut out), Ok(7));
    assert_eq!(insn(&out[..7]).rip_relative_target(to), Some(0x8100_0017));
}

#[test]
fn branches_are_not_moved() {
    let mut out = [0; 16];
    for bytes in [
        &[0xeb, 0][..],
        &[0xe8, 0, 0, 0, 0],
        &[0x74, 0],
        &[0xe2, 0],
        &[0xc7, 0xf8, 0, 0, 0, 0],
    ] {
        assert_eq!(
            relocate(&insn(bytes), 0, 0x1000, &mut out),
            Err(RelocateError::Branch)
        );
    }
    // Others are copied as they are.
    assert_eq!(relocate(&insn(&[0xff, 0xe0]), 0, 1 << 40, &mut out), Ok(2));
    assert_eq!(out[..2], [0xff, 0xe0]);
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let Ok(insn) = Insn::decode(&bytes) else { return Ok(()) };
        let _ = relocate(&insn, 0, u64::MAX, &mut [0; 16]);
    }
}
