// SPDX-License-Identifier: GPL-2.0

//! Tests of code that is not a template, with the reason.

use super::*;

/// A template of few instructions, which a test changes.
struct Small {
    text: Vec<u8>,
    labels: Labels,
}

/// `mov 0(%rip), %rdx`, `call`, `jne` to beyond the end, `popf`
const TEXT: [u8; 15] = [
    0x48, 0x8b, 0x15, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x75, 0x70, 0x9d,
];

fn small() -> Small {
    Small {
        text: TEXT.to_vec(),
        labels: Labels {
            start: 0x1000,
            load_ops: 0x1000,
            call: 0x1007,
            direct: Some(0x100c),
            end: 0x100f,
        },
    }
}

impl Small {
    fn refusal(&self) -> Option<Refusal> {
        Template::new(&self.text, &self.labels).err()
    }
}

/// Returns the refusal with `bytes` in place of the last instruction.
fn ends_with(bytes: &[u8]) -> Option<Refusal> {
    let mut small = small();
    small.text.truncate(14);
    small.text.extend_from_slice(bytes);
    small.labels.end = 0x1000 + small.text.len() as u64;
    small.refusal()
}

#[test]
fn it_is_none_as_it_is() {
    assert_eq!(small().refusal(), None);
    let mut plain = small();
    plain.labels.direct = None;
    plain.text[12] = 0x90;
    plain.text[13] = 0x90;
    assert_eq!(plain.refusal(), None);
}

#[test]
fn labels_out_of_order() {
    let refused = |change: fn(&mut Labels)| {
        let mut small = small();
        change(&mut small.labels);
        small.refusal()
    };
    let changes: [fn(&mut Labels); 9] = [
        |labels| labels.end = labels.start - 1,
        |labels| labels.end = labels.start,
        |labels| labels.end = labels.call,
        |labels| labels.end = labels.start + MAX_TEMPLATE as u64 + 1,
        |labels| labels.end += 1,
        |labels| labels.load_ops = labels.call,
        |labels| labels.load_ops = labels.start - 1,
        |labels| labels.direct = Some(labels.call),
        |labels| labels.direct = Some(labels.end),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(refused(change), Some(Refusal::Labels), "{number}");
    }
}

#[test]
fn labels_within_instructions() {
    let mut load = small();
    load.labels.load_ops += 1;
    assert_eq!(load.refusal(), Some(Refusal::NoBoundary(1)));
    let mut call = small();
    call.labels.call += 1;
    // The code without the label has an unexpected call.
    assert_eq!(call.refusal(), Some(Refusal::Leaves(7)));
    let mut direct = small();
    direct.labels.direct = Some(0x100d);
    assert_eq!(direct.refusal(), Some(Refusal::Leaves(12)));
    let mut end = small();
    end.text[12..].copy_from_slice(&[0x90, 0x48, 0x8b]);
    end.labels.direct = None;
    assert_eq!(end.refusal(), Some(Refusal::Undecodable(13)));
}

#[test]
fn other_instructions_at_the_labels() {
    let with = |at: usize, bytes: &[u8]| {
        let mut small = small();
        small.text[at..at + bytes.len()].copy_from_slice(bytes);
        small.refusal()
    };
    // To another register; from the stack.
    assert_eq!(with(0, &[0x48, 0x8b, 0x0d]), Some(Refusal::NoLoad(0)));
    assert_eq!(
        with(0, &[0x48, 0x8b, 0x94, 0x24, 0, 0, 0, 0]),
        Some(Refusal::NoLoad(0))
    );
    // jmp; call *%rax
    assert_eq!(with(7, &[0xe9]), Some(Refusal::NoCall(7)));
    assert_eq!(
        with(7, &[0xff, 0xd0, 0x90, 0x90, 0x90]),
        Some(Refusal::NoCall(7))
    );
    // Inside of the code; not conditional; nop.
    assert_eq!(with(12, &[0x75, 0x00]), Some(Refusal::NoDirect(12)));
    assert_eq!(with(12, &[0xeb, 0x10]), Some(Refusal::NoDirect(12)));
    assert_eq!(with(12, &[0x66, 0x90]), Some(Refusal::NoDirect(12)));
}

#[test]
fn what_leaves() {
    for code in [
        &[0xc3][..],
        &[0xe8, 0, 0, 0, 0],
        &[0xe9, 0x10, 0, 0, 0],
        &[0xff, 0xe0],
        &[0xeb, 0x10],
        &[0x74, 0x10],
        &[0xeb, 0x80],
        &[0xcc],
        &[0x0f, 0x0b],
        &[0xf4],
        &[0x0f, 0x05],
    ] {
        assert_eq!(ends_with(code), Some(Refusal::Leaves(14)), "{code:x?}");
    }
    // An operand relative to RIP that is truncated to 32 bits.
    let cut = [0x67, 0x48, 0x8b, 0x05, 0, 0, 0, 0];
    assert_eq!(ends_with(&cut), Some(Refusal::Leaves(14)));
    // To the beginning.
    assert_eq!(ends_with(&[0xeb, 0xf0]), None);
    // Over breakpoints, as in the kernel's filler of a gap that is longer than a NOP; but exactly
    // over them.
    assert_eq!(ends_with(&[0xeb, 2, 0xcc, 0xcc, 0x90]), None);
    assert_eq!(
        ends_with(&[0xeb, 1, 0xcc, 0xcc, 0x90]),
        Some(Refusal::Leaves(17))
    );
    assert_eq!(
        ends_with(&[0xeb, 2, 0xc3, 0xcc, 0x90]),
        Some(Refusal::Leaves(16))
    );
}

#[test]
fn bytes_that_are_no_code() {
    assert_eq!(ends_with(&[0x06]), Some(Refusal::Undecodable(14)));
}

#[test]
fn too_many_operands_that_move() {
    // incl 0(%rip)
    let inc = [0xff, 0x05, 0, 0, 0, 0];
    assert_eq!(ends_with(&inc.repeat(8)), None);
    assert_eq!(
        ends_with(&inc.repeat(9)),
        Some(Refusal::TooManyMoved(14 + 48))
    );
}
