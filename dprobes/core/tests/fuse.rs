// SPDX-License-Identifier: GPL-2.0

//! Tests that a program with fused commands has the same effect.

use proptest::prelude::*;

use super::properties::good_code;
use super::*;

fn fused(code: &[Insn]) -> Vec<Insn> {
    let mut fused = code.to_vec();
    fuse(&mut fused);
    fused
}

/// Runs both, and compares all results. Returns the number of pairs.
fn compare(code: &[Insn], limits: &Limits) -> usize {
    let fused = fused(code);
    let model = || Model::with_bytes(0, &[7; 256]);
    let (one, other) = (
        run_in(model(), limits, code),
        run_in(model(), limits, &fused),
    );
    assert_eq!(one.outcome, other.outcome);
    assert_eq!(
        one.outcome.data(&one.memory),
        other.outcome.data(&other.memory)
    );
    assert_eq!(one.memory.stack, other.memory.stack);
    assert_eq!(one.model.locals, other.model.locals);
    assert_eq!(one.model.globals, other.model.globals);
    assert_eq!(one.model.bytes, other.model.bytes);
    assert_eq!(one.model.registers, other.model.registers);
    code.iter()
        .zip(&fused)
        .filter(|(one, other)| one != other)
        .count()
}

/// Generates any commands, with many pairs among them.
fn code() -> impl Strategy<Value = Vec<Insn>> {
    let operations = [
        Op::Add,
        Op::Sub,
        Op::Mul,
        Op::And,
        Op::Or,
        Op::Xor,
        Op::Div,
        Op::Push,
    ];
    let pair = (any::<u64>(), prop::sample::select(operations.to_vec()));
    let pairs = prop::collection::vec(pair, 1..20);
    (good_code(), pairs, any::<prop::sample::Index>()).prop_map(|(mut code, pairs, at)| {
        let at = at.index(code.len());
        let pairs = pairs.into_iter();
        let pairs = pairs.flat_map(|(word, op)| [Insn::push(word), Insn::new(op)]);
        code.splice(at..at, pairs);
        code
    })
}

#[test]
fn pairs_are_one() {
    let [push, exit] = [Insn::push(5), Insn::new(Op::Exit)];
    for op in [Op::Add, Op::Sub, Op::Mul, Op::And, Op::Or, Op::Xor] {
        let code = [push, push, Insn::new(op), Insn::with(Op::Log, 1), exit];
        assert_eq!(compare(&code, &LIMITS), 1, "{op:?}");
        assert_eq!(fused(&code)[1].op, op.after_push().unwrap());
    }
    // Not with other commands, nor of another kind, nor at the end.
    assert_eq!(compare(&[push, push, Insn::new(Op::Div), exit], &LIMITS), 0);
    let register = Insn::register(Op::PushR, Register::Di);
    assert_eq!(
        compare(&[push, register, Insn::new(Op::Add), exit], &LIMITS),
        0
    );
    assert_eq!(fused(&[push]), [push]);
    assert_eq!(fused(&[]), []);
}

/// The second of a pair stays for jumps to it.
#[test]
fn the_second_is_still_there() {
    let code = [
        Insn::push(1),
        Insn::push(2),
        Insn::with(Op::Jmp, 4),
        Insn::push(3),
        Insn::new(Op::Sub),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ];
    assert_eq!(compare(&code, &LIMITS), 1);
    assert_eq!(run_code(&fused(&code)).words(), [1_u64.wrapping_sub(2)]);
}

/// If the stack wraps, the push is the faulting instruction.
#[test]
fn the_stack_wraps_at_the_push() {
    let wraps = Limits {
        ex_mask: MASK_DEFAULT | u32::from(Exception::Stack.bit()),
        ..LIMITS
    };
    for limits in [LIMITS, wraps] {
        for left in 0..3 {
            let code = [
                Insn::at(Op::Ros, left - (STACK_WORDS as i64 - 1)),
                Insn::push(5),
                Insn::new(Op::Add),
                Insn::push(6),
                Insn::new(Op::Sub),
                Insn::with(Op::Log, 2),
                Insn::new(Op::Exit),
            ];
            assert_eq!(compare(&code, &limits), 2);
        }
    }
}

proptest! {
    #[test]
    fn it_is_as_with_all(code in code(), jumps in 0..500u32, ex_mask: u16) {
        let limits = Limits { jumps, ex_mask: ex_mask.into(), ..LIMITS };
        compare(&code, &limits);
    }
}
