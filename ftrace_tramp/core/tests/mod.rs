// SPDX-License-Identifier: GPL-2.0

//! Tests of copies of recorded templates against the templates, instruction by instruction; and of
//! other code.

mod recorded;
mod refused;
mod sets;
mod shorten;
mod stub;

use super::*;
use ferro_core::insn::Boundaries;
use ferro_core::insn::Insn;
use proptest::prelude::*;
use recorded::Recorded;
use recorded::DEPTH;
use recorded::OPS;
use recorded::RECORDED;
use recorded::STUB;
use recorded::THUNK;

const FUNCTION: CallTarget = CallTarget::new(0xffff_ffff_a000_0001);
const OWN_OPS: u64 = 0xffff_8880_1234_5678;
const ENDINGS: [Ending; 3] = [
    Ending::Return,
    Ending::ReturnTrap,
    Ending::Thunk(JumpTarget::new(THUNK)),
];

impl Recorded {
    fn template(&self) -> Template {
        Template::new(self.text, &self.labels).unwrap_or_else(|e| panic!("{}: {e:?}", self.name))
    }
}

fn written(template: &Template, at: u64, ending: Ending) -> Result<Vec<u8>, WriteError> {
    let mut to = vec![0xaa; template.copy_len(ending)];
    let trampoline = Trampoline {
        function: FUNCTION,
        third: Third::Ops(OWN_OPS),
        ending,
    };
    template.write(&mut to, at, &trampoline).map(|()| to)
}

fn instructions(code: &[u8]) -> Vec<(usize, Insn)> {
    Boundaries::new(code).map(Result::unwrap).collect()
}

/// Checks that each instruction of the copy has the effect of the template's, except for the
/// intended changes.
fn check(recorded: &Recorded, at: u64, ending: Ending) {
    let labels = &recorded.labels;
    let copy = written(&recorded.template(), at, ending).unwrap();
    let len = recorded.text.len();
    let (code, rest) = copy.split_at(len);
    let (code, text) = (instructions(code), instructions(recorded.text));
    assert_eq!(code.len(), text.len(), "{}", recorded.name);
    let mut depths = 0;
    for ((offset, ours), (same, theirs)) in code.into_iter().zip(text) {
        assert_eq!(offset, same, "{}", recorded.name);
        let (here, there) = (at + offset as u64, labels.start + offset as u64);
        if there == labels.call {
            assert_eq!(theirs.branch_target(there), Some(STUB));
            assert_eq!(ours.branch_target(here), Some(FUNCTION.address()));
            let code = ours.bytes().try_into().unwrap();
            assert_eq!(CallTarget::of_call(code, here), Some(FUNCTION));
        } else if there == labels.load_ops {
            assert_eq!(theirs.rip_relative_target(there), Some(OPS));
            let word = ours.rip_relative_target(here).unwrap() - at;
            assert_eq!(ours.bytes()[..3], theirs.bytes()[..3]);
            assert_eq!(word as usize, copy.len() - 8);
        } else if Some(there) == labels.direct {
            assert_eq!(ours.bytes(), [0x66, 0x90]);
        } else if let Some(target) = theirs.rip_relative_target(there) {
            assert_eq!(target, DEPTH);
            assert_eq!(ours.rip_relative_target(here), Some(target));
            assert_eq!(ours.immediate(), theirs.immediate());
            assert_eq!(ours.bytes()[..4], theirs.bytes()[..4]);
            depths += 1;
        } else {
            assert_eq!(ours.bytes(), theirs.bytes());
        }
    }
    assert_eq!(
        depths,
        if recorded.name.starts_with("call depth") {
            2
        } else {
            0
        }
    );

    let (end, word) = rest.split_at(rest.len() - 8);
    assert_eq!(word, OWN_OPS.to_le_bytes());
    match ending {
        Ending::Return => assert_eq!(end, [0xc3]),
        Ending::ReturnTrap => assert_eq!(end, [0xc3, 0xcc]),
        Ending::Thunk(thunk) => {
            let jump = Insn::decode(end).unwrap();
            assert_eq!((jump.len(), jump.opcode()), (5, 0xe9));
            assert_eq!(jump.branch_target(at + len as u64), Some(thunk.address()));
        }
    }
}

#[test]
fn a_copy_does_the_same() {
    for recorded in &RECORDED {
        for ending in ENDINGS {
            for at in [
                0xffff_ffff_a000_0000,
                0xffff_ffff_c012_3457,
                0xffff_ffff_fe00_0040,
            ] {
                check(recorded, at, ending);
            }
        }
    }
}

#[test]
fn what_a_copy_needs() {
    let lens = RECORDED.each_ref().map(|recorded| {
        let template = recorded.template();
        (template.bytes().len(), template.copy_len(ENDINGS[2]))
    });
    assert_eq!(lens[0], (194, 207));
    assert_eq!(lens[1], (327, 340));
}

#[test]
fn what_is_too_far_away() {
    for recorded in &RECORDED {
        let template = recorded.template();
        for at in [0xffff_ffff_0000_0000, 0xffff_8880_0000_0000, 0x1_0000_0000] {
            assert_eq!(
                written(&template, at, Ending::Return),
                Err(WriteError::OutOfReach)
            );
        }
    }
    let [plain, ..] = &RECORDED;
    // In reach of its function, but not of the thunk.
    let far = Ending::Thunk(JumpTarget::new(0x1_0000_0000));
    let at = 0xffff_ffff_a000_0000;
    assert_eq!(
        written(&plain.template(), at, far),
        Err(WriteError::OutOfReach)
    );
}

#[test]
fn memory_of_another_length() {
    let [plain, ..] = &RECORDED;
    let template = plain.template();
    let trampoline = Trampoline {
        function: FUNCTION,
        third: Third::Ops(OWN_OPS),
        ending: Ending::Return,
    };
    let len = template.copy_len(Ending::Return);
    for wrong in [0, 1, len - 1, len + 1] {
        let mut to = vec![0; wrong];
        let result = template.write(&mut to, 0xffff_ffff_a000_0000, &trampoline);
        assert_eq!(result, Err(WriteError::Length));
        assert!(to.iter().all(|byte| *byte == 0));
    }
}

/// With bit 0 as the mark of a jump, such a call became one.
#[test]
fn odd_addresses_are_called() {
    let at = 0xffff_ffff_a000_0000;
    for address in [0xffff_ffff_8104_2950, 0xffff_ffff_8104_2951, u64::MAX] {
        let call = CallTarget::new(address).call(at).unwrap();
        assert_eq!(call[0], 0xe8);
        assert_eq!(
            CallTarget::of_call(&call, at),
            Some(CallTarget::new(address))
        );
        let jump = JumpTarget::new(address).jump(at).unwrap();
        assert_eq!(jump[0], 0xe9);
        assert_eq!(CallTarget::of_call(&jump, at), None);
    }
    assert_eq!(CallTarget::new(0x1_0000_0000).call(at), None);
}

#[test]
fn the_reach_is_32_bits() {
    let at = 0x1_0000_0000;
    for (to, reached) in [
        (at + 5 + 0x7fff_ffff, true),
        (at + 5 + 0x8000_0000, false),
        (at + 5 - 0x8000_0000, true),
        (at + 5 - 0x8000_0001, false),
    ] {
        assert_eq!(CallTarget::new(to).call(at).is_some(), reached);
        assert_eq!(JumpTarget::new(to).jump(at).is_some(), reached);
    }
}

proptest! {
    #[test]
    fn a_copy_anywhere_does_the_same(
        which in 0..RECORDED.len(),
        ending in 0..ENDINGS.len(),
        at in 0xffff_ffff_a000_0000..0xffff_ffff_ff00_0000u64,
    ) {
        check(&RECORDED[which], at, ENDINGS[ending]);
    }

    /// Changed code is refused, or is copied unchanged except for the fields that were found.
    #[test]
    fn changed_code(
        which in 0..RECORDED.len(),
        changes in proptest::collection::vec((0..400usize, any::<u8>()), 1..8),
        at in 0xffff_ffff_a000_0000..0xffff_ffff_ff00_0000u64,
    ) {
        let recorded = &RECORDED[which];
        let mut text = recorded.text.to_vec();
        for (offset, byte) in changes {
            let offset = offset % text.len();
            text[offset] = byte;
        }
        let Ok(template) = Template::new(&text, &recorded.labels) else {
            return Ok(());
        };
        if let Ok(copy) = written(&template, at, Ending::Return) {
            let ours = instructions(&copy[..text.len()]);
            let theirs = instructions(&text);
            prop_assert_eq!(ours.len(), theirs.len());
            for ((offset, ours), (_, theirs)) in ours.into_iter().zip(theirs) {
                let there = recorded.labels.start + offset as u64;
                if there != recorded.labels.load_ops && there != recorded.labels.call {
                    let target = theirs.rip_relative_target(there);
                    prop_assert_eq!(ours.rip_relative_target(at + offset as u64), target);
                }
            }
        }
    }
}
