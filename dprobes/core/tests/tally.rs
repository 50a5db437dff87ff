// SPDX-License-Identifier: GPL-2.0

//! Tests that a program run by [`Tally`] counts the same as by [`run`].

use proptest::prelude::*;

use super::*;

/// Runs it in both ways. Returns `None` for other programs.
fn compare(code: &[Insn]) -> Option<bool> {
    let tally = Tally::new(code)?;
    let counted = Model::new();
    let is_done = tally.count(&counted);
    let ran = run_code(code);
    match is_done {
        true => {
            assert_eq!(ran.end(), End::Exit);
            assert_eq!(counted.locals, ran.model.locals);
            assert_eq!(counted.globals, ran.model.globals);
        }
        false => {
            assert!(ran.fault().is_some());
            assert_eq!(counted.locals, Model::new().locals);
            assert_eq!(counted.globals, Model::new().globals);
        }
    }
    Some(is_done)
}

#[test]
fn by_a_process() {
    // The model's process is 41: three of four variables do not change.
    let code = [
        Insn::new(Op::PushPid),
        Insn::push(3),
        Insn::new(Op::And),
        Insn::from_stack(Op::IncLv),
        Insn::new(Op::Exit),
    ];
    assert_eq!(compare(&code), Some(true));
    assert_eq!(run_code(&code).model.locals.into_inner(), [0, 1, 0, 0]);
    // The variable does not exist.
    let far = [code[0], code[3], code[4]];
    assert_eq!(compare(&far), Some(false));
}

#[test]
fn others_are_none() {
    let [pid, push, and] = [Insn::new(Op::PushPid), Insn::push(3), Insn::new(Op::And)];
    let [inc, exit] = [Insn::from_stack(Op::IncLv), Insn::new(Op::Exit)];
    for code in [
        &[pid, push, and, inc][..],
        &[pid, push, and, inc, Insn::new(Op::Rem)],
        &[pid, push, and, inc, Insn::width(Op::Exit, 1)],
        &[pid, push, and, Insn::with(Op::IncLv, 1), exit],
        &[pid, push, and, Insn::from_stack(Op::PushLv), exit],
        &[pid, push, Insn::new(Op::Div), inc, exit],
        &[pid, pid, and, inc, exit],
        &[pid, push, inc, exit],
        &[Insn::register(Op::PushR, Register::Cr0), inc, exit],
        &[
            pid, push, and, push, and, push, and, push, and, push, and, inc, exit,
        ],
        &[inc, exit],
        &[exit],
        &[],
    ] {
        assert!(Tally::new(code).is_none(), "{code:?}");
    }
}

proptest! {
    #[test]
    fn it_is_as_run_does(
        source in prop_oneof![
            prop::sample::select(vec![
                Op::PushPid, Op::PushTid, Op::PushProcId, Op::PushTime, Op::PushTask
            ]).prop_map(Insn::new),
            (0u8..18).prop_map(|n| Insn::register(Op::PushR, Register::from_number(n).unwrap())),
            (0u64..4).prop_map(Insn::push),
        ],
        operations in prop::collection::vec(
            (
                prop_oneof![0u64..8, any::<u64>()],
                prop::sample::select(vec![Op::Add, Op::Sub, Op::Mul, Op::And, Op::Or, Op::Xor]),
            ),
            0..4,
        ),
        last in prop::sample::select(vec![Op::IncLv, Op::DecLv, Op::IncGv, Op::DecGv]),
        mask in prop_oneof![Just(1u64), Just(3), Just(u64::MAX)],
    ) {
        let mut code = vec![source];
        code.extend(operations.iter().flat_map(|(word, op)| [Insn::push(*word), Insn::new(*op)]));
        code.extend([Insn::push(mask), Insn::new(Op::And)]);
        code.extend([Insn::from_stack(last), Insn::new(Op::Exit)]);
        prop_assert!(compare(&code).is_some());
    }
}
