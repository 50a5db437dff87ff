// SPDX-License-Identifier: GPL-2.0

//! Exceptions, their handlers, and the bounds of a run.

use super::*;

fn plain(op: Op) -> Insn {
    Insn::new(op)
}

fn with_mask(ex_mask: u32) -> Limits {
    Limits { ex_mask, ..LIMITS }
}

#[test]
fn memory_that_is_not_there_ends_softly() {
    let ran = run_code(&[
        Insn::push(1),
        Insn::with(Op::Log, 1),
        Insn::push(0x40),
        Insn::width(Op::PushMem, 4),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.fault(), Some((Exception::Address, 0x40)));
    assert!(!ran.outcome.is_empty());
    let fault = Fault::new(Exception::Address, 0x40);
    assert_eq!(ran.entries().last(), Some(&Entry::Exception(fault, 3)));
    assert_eq!(ran.outcome.at, 3);
}

#[test]
fn an_exception_that_is_masked_leaves_no_record() {
    let code = [
        Insn::push(0x40),
        Insn::width(Op::PushMem, 4),
        plain(Op::Exit),
    ];
    let ran = run_in(Model::new(), &with_mask(0), &code);
    assert_eq!(ran.fault(), Some((Exception::Address, 0x40)));
    assert!(ran.outcome.is_empty());
}

#[test]
fn jumps_end() {
    let ran = run_code(&[Insn::with(Op::IncLv, 0), Insn::with(Op::Jmp, 0)]);
    assert_eq!(ran.fault(), Some((Exception::Jumps, 1000)));
    assert_eq!(ran.model.locals.borrow()[0], 1001);
}

#[test]
fn a_handler_does_not_prolong_a_loop() {
    let ran = run_code(&[
        Insn::with(Op::Sx, 0),
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::Jmp, 0),
    ]);
    assert_eq!(ran.fault(), Some((Exception::Jumps, 1000)));
    let ran = run_code(&[
        Insn::with(Op::Sx, 0),
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::Rx, 1),
    ]);
    assert_eq!(ran.fault(), Some((Exception::User, 1)));
    assert_eq!(ran.model.locals.borrow()[0], 1001);
}

#[test]
fn what_is_repeated_is_bounded() {
    // Few jumps, but each over a long way.
    let mut code = vec![plain(Op::Nop); CODE_MAX - 1];
    code[0] = Insn::with(Op::IncLv, 0);
    code.push(Insn::with(Op::Jmp, 0));
    let limits = Limits {
        jumps: JUMPS_MAX,
        ..LIMITS
    };
    let ran = run_in(Model::new(), &limits, &code);
    assert_eq!(ran.fault(), Some((Exception::Jumps, STEPS_MAX.into())));
    let rounds = ran.model.locals.borrow()[0];
    assert!(
        rounds <= u64::from(STEPS_MAX) / CODE_MAX as u64 + 1,
        "{rounds}"
    );
}

/// Runs a loop for as long as allowed, and returns the number of rounds.
fn rounds(round: &[Insn]) -> (Ran, u64) {
    let code = [
        &[Insn::with(Op::IncLv, 0)],
        round,
        &[Insn::with(Op::Jmp, 0)],
    ];
    let limits = Limits {
        jumps: JUMPS_MAX,
        log: LOG_MAX,
        ..LIMITS
    };
    let ran = run_in(Model::new(), &limits, &code.concat());
    assert_eq!(ran.fault(), Some((Exception::Jumps, STEPS_MAX.into())));
    let rounds = ran.model.locals.borrow()[0];
    (ran, rounds)
}

/// `pop lp` checks all entries, and empty ones have 3 bytes.
#[test]
fn looking_at_the_log_is_bounded() {
    let empty = [Insn::push(0), Insn::push(0), plain(Op::LogMrf)];
    let back = [plain(Op::PushLp), plain(Op::PopLp)];
    let (ran, rounds) = rounds(&[empty.repeat(200), back.repeat(1000)].concat());
    // 600 bytes more in each round, until the log is full.
    assert!(ran.outcome.data(&ran.memory)[0].len() >= 600);
    assert!(
        rounds <= u64::from(STEPS_MAX) / (200 * 1000) + 1,
        "{rounds}"
    );
}

/// Also in a handler, without a command after the failed one.
#[test]
fn looking_at_what_is_not_there_is_bounded() {
    for op in [Op::LogStr, Op::LogMrf] {
        let code = [
            Insn::with(Op::Sx, 0),
            // The missing memory has left its address.
            Insn::push(0),
            plain(Op::PopLp),
            Insn::push(4000),
            Insn::push(0x40),
            plain(op),
            plain(Op::Exit),
        ];
        let limits = Limits {
            jumps: JUMPS_MAX,
            log: LOG_MAX,
            ..LIMITS
        };
        let ran = run_in(Model::new(), &limits, &code);
        assert_eq!(ran.fault().map(|fault| fault.0), Some(Exception::Jumps));
        let work = ran.model.work.get();
        assert!(work <= u64::from(STEPS_MAX) + 600, "{op:?}: {work}");
    }
    let code = [
        Insn::with(Op::Sx, 0),
        Insn::push(0x40),
        Insn::width(Op::PushMem, 8),
        plain(Op::Exit),
    ];
    let limits = Limits {
        jumps: JUMPS_MAX,
        ..LIMITS
    };
    let ran = run_in(Model::new(), &limits, &code);
    let work = ran.model.work.get();
    assert!(work <= u64::from(STEPS_MAX), "{work}");
}

/// Commands that take longer than an instruction cost more than a step.
#[test]
fn what_takes_long_is_bounded() {
    // 32 running calls, and a loop that traces them.
    let mut code = (1..33).map(|n| Insn::with(Op::Call, n)).collect::<Vec<_>>();
    code.extend([plain(Op::LogSt), plain(Op::PurgeSt)].repeat(500));
    code.extend([Insn::with(Op::IncLv, 0), Insn::with(Op::Jmp, 32)]);
    let limits = Limits {
        jumps: JUMPS_MAX,
        ..LIMITS
    };
    let ran = run_in(Model::new(), &limits, &code);
    let rounds = ran.model.locals.borrow()[0];
    assert!(rounds <= u64::from(STEPS_MAX) / (500 * 33), "{rounds}");
    // A register of the CPU, and a port.
    for (op, word) in [
        (Insn::register(Op::PushR, Register::Dr0), 0),
        (Insn::width(Op::PushIo, 4), 0x80),
    ] {
        let code = [
            &[Insn::push(word), op, Insn::with(Op::IncLv, 0)],
            &[Insn::with(Op::Jmp, 0); 1][..],
        ];
        let mut model = Model::new();
        model.registers.insert(Register::Dr0.number(), 0);
        model.ports.insert(0x80, 0);
        let ran = run_in(model, &limits, &code.concat());
        assert_eq!(ran.fault(), Some((Exception::Jumps, STEPS_MAX.into())));
        let rounds = ran.model.locals.borrow()[0];
        assert!(rounds <= u64::from(STEPS_MAX) / 64, "{rounds}");
    }
}

#[test]
fn calls_are_bounded() {
    let ran = run_code(&[
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::Call, 0),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.fault(), Some((Exception::Calls, 33)));
    assert_eq!(ran.model.locals.borrow()[0], 33);
    let ran = run_code(&[plain(Op::Ret)]);
    assert_eq!(ran.fault(), Some((Exception::Calls, 0)));
}

#[test]
fn subroutines_that_repeat_are_bounded() {
    // A return is not a jump, so the steps have to end it.
    let ran = run_code(&[
        Insn::with(Op::Call, 3),
        Insn::with(Op::Call, 3),
        Insn::with(Op::Jmp, 0),
        plain(Op::Ret),
    ]);
    assert_eq!(ran.fault(), Some((Exception::Jumps, 1000)));
}

#[test]
fn handlers() {
    let ran = run_code(&[
        Insn::with(Op::Sx, 6),
        Insn::push(1),
        Insn::with(Op::Call, 4),
        plain(Op::Abort),
        // Subroutine.
        Insn::push(0x40),
        Insn::width(Op::PushMem, 1),
        // Handler: the stack is as at the time when it was set.
        plain(Op::PushX),
        Insn::with(Op::Log, 3),
        // The handler is no longer set.
        Insn::with(Op::Rx, 9),
    ]);
    assert_eq!(ran.words(), [1, 0x40, 5]);
    assert_eq!(ran.fault(), Some((Exception::User, 9)));
}

#[test]
fn the_nearest_handler_gets_it() {
    let code = |own: bool| {
        [
            Insn::with(Op::Sx, 5),
            Insn::with(Op::Call, 2),
            match own {
                true => Insn::with(Op::Sx, 4),
                false => plain(Op::Nop),
            },
            Insn::with(Op::Rx, 3),
            plain(Op::Exit),
            plain(Op::Abort),
        ]
    };
    assert_eq!(run_code(&code(true)).end(), End::Exit);
    assert_eq!(run_code(&code(false)).end(), End::Abort);
}

#[test]
fn a_handler_can_be_taken_away() {
    let ran = run_code(&[
        Insn::with(Op::Sx, 3),
        plain(Op::Ux),
        Insn::with(Op::Rx, 2),
        plain(Op::Exit),
    ]);
    assert_eq!(ran.fault(), Some((Exception::User, 2)));
}

#[test]
fn nothing_is_pushed_before_an_exception() {
    assert_eq!(leaves(&[], &[plain(Op::PushX)]), Ok(vec![0, 0, 0]));
}

#[test]
fn the_stack_wraps() {
    let mut code = vec![Insn::push(5); 1024];
    code.push(plain(Op::Exit));
    assert_eq!(run_code(&code).end(), End::Exit);
    let strict = with_mask(MASK_DEFAULT | u32::from(Exception::Stack.bit()));
    let ran = run_in(Model::new(), &strict, &code);
    assert_eq!(ran.fault(), Some((Exception::Stack, 1023)));
    let ran = run_in(Model::new(), &strict, &[plain(Op::Pop), plain(Op::Exit)]);
    assert_eq!(ran.fault(), Some((Exception::Stack, 0)));
}

#[test]
fn the_calls_are_traced() {
    let code = [
        Insn::with(Op::Call, 2),
        plain(Op::Exit),
        Insn::with(Op::Call, 4),
        plain(Op::Ret),
        Insn::with(Op::Rx, 1),
    ];
    let limits = Limits {
        auto_stack_trace: true,
        ..LIMITS
    };
    let ran = run_in(Model::new(), &limits, &code);
    let entries = ran.entries();
    let Some(Entry::Calls(calls)) = entries.last() else {
        panic!("{entries:?}");
    };
    assert_eq!(calls.iter().collect::<Vec<_>>(), [4, 3, 1]);
    let ran = run_code(&code);
    assert_eq!(ran.entries().len(), 1);
}

#[test]
fn the_trace() {
    let ran = run_code(&[
        Insn::with(Op::IncLv, 2),
        plain(Op::LogSt),
        plain(Op::PurgeSt),
        Insn::with(Op::TraceLv, 2),
        Insn::with(Op::TraceGv, 1),
        Insn::push(77),
        plain(Op::TracePv),
        plain(Op::LogSt),
        plain(Op::Exit),
    ]);
    let entries = ran.entries();
    assert_eq!(entries.len(), 4);
    assert!(matches!(entries[0], Entry::Locals(2, words) if words.iter().eq([1])));
    assert!(matches!(entries[1], Entry::Globals(1, words) if words.iter().eq([0])));
    assert_eq!(entries[2], Entry::Top(77));
    assert!(matches!(entries[3], Entry::Calls(words) if words.iter().eq([7])));
}

#[test]
fn no_instruction() {
    let ran = run_code(&[plain(Op::Nop)]);
    assert_eq!(ran.fault(), Some((Exception::Opcode, 1)));
    assert_eq!(run_code(&[]).fault(), Some((Exception::Opcode, 0)));
    let ran = run_code(&[Insn::with(Op::Jmp, u32::MAX)]);
    assert_eq!(ran.fault(), Some((Exception::Opcode, 1)));
}

#[test]
fn texts_and_bits() {
    for exception in EXCEPTIONS {
        assert_eq!(Exception::from_bit(exception.bit()), Some(exception));
        assert_eq!(exception.bit().count_ones(), 1);
        assert!(!exception.text().is_empty());
    }
    assert_eq!(Exception::from_bit(8), None);
}
