// SPDX-License-Identifier: GPL-2.0

//! Regression tests for errors of version 5's interpreter, in C.

use super::*;

fn plain(op: Op) -> Insn {
    Insn::new(op)
}

/// The old one took the number of variables for an index, and accessed the word after the last.
#[test]
fn the_variable_after_the_last() {
    let model = Model::new();
    let count = model.locals.borrow().len();
    for op in [Op::PushLv, Op::IncLv, Op::DecLv] {
        let found = leaves(&[count as u64], &[Insn::from_stack(op)]);
        assert_eq!(found, Err((Exception::Operand, count as u64)));
        let insn = Insn::with(op, count as u32);
        let refused = Reason::Variable(Scope::Local, count as u64);
        assert_eq!(insn.check(1, count as u32, 0), Err(refused));
        let last = Insn::with(op, count as u32 - 1);
        assert_eq!(last.check(1, count as u32, 0), Ok(()));
    }
}

/// The old one took any indexes of the stack from the stack.
#[test]
fn indexes_of_the_stack_that_were_written_over() {
    let ran = run_code(&[
        plain(Op::Save),
        Insn::push(u64::MAX),
        Insn::at(Op::PopSbp, 0),
        Insn::push(u64::MAX - 5),
        Insn::at(Op::PopSbp, -1),
        plain(Op::Restore),
        Insn::push(4),
        Insn::with(Op::PopLv, 0),
        Insn::push(6),
        Insn::at(Op::PopSbp, 1023),
        Insn::at(Op::PushSbp, -1023),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.end(), End::Exit);
    assert_eq!(ran.model.locals.borrow()[0], 4);
}

/// The CPU cannot divide these, and traps.
#[test]
fn the_least_number_divided_by_minus_one() {
    let least = 1 << 63;
    let found = leaves(&[least, u64::MAX], &[plain(Op::Idiv)]);
    assert_eq!(found, Ok(vec![least, 0]));
}

/// The compiler chose the operand that was popped first.
#[test]
fn the_order_of_operands() {
    assert_eq!(leaves(&[10, 3], &[plain(Op::Sub)]), Ok(vec![7]));
    assert_eq!(leaves(&[10, 3], &[plain(Op::Div)]), Ok(vec![3, 1]));
}

/// Earlier bytes of the stack, the log or the heap are not logged.
#[test]
fn nothing_of_others_is_logged() {
    let strict = Limits {
        ex_mask: MASK_DEFAULT | u32::from(Exception::Stack.bit()),
        ..LIMITS
    };
    let code = [Insn::push(1), Insn::with(Op::Log, 3), plain(Op::Exit)];
    let ran = run_in(Model::new(), &strict, &code);
    let fault = Fault::new(Exception::Stack, 0);
    assert_eq!(ran.entries(), [Entry::Exception(fault, 1)]);
    let code = [
        Insn::push(8),
        plain(Op::Malloc),
        Insn::push(0),
        Insn::width(Op::PushH, 8),
        Insn::with(Op::Log, 1),
        plain(Op::Exit),
    ];
    assert_eq!(run_code(&code).words(), [0]);
}
