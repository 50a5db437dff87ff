// SPDX-License-Identifier: GPL-2.0

//! Tests that a program run by [`Plain`] leaves the same record as by [`run`].

use proptest::prelude::*;

use super::*;

/// Makes the record of a program in both ways.
fn both(code: &[Insn], limits: &Limits) -> (Option<Vec<u8>>, Vec<u8>, End) {
    let model = || Model::with_bytes(0x100, &std::array::from_fn::<_, 64, _>(|n| n as u8));
    let written = Plain::new(limits, 0, code).and_then(|plain| {
        let written = by::<Steps>(&plain, &model());
        let as_shaped = match plain.shape() {
            Shape::Pair => by::<Pair>(&plain, &model()),
            Shape::Word => by::<OfWords<1>>(&plain, &model()),
            Shape::TwoWords => by::<OfWords<2>>(&plain, &model()),
            Shape::Steps => written.clone(),
        };
        assert_eq!(as_shaped, written);
        written
    });
    let mut ran = run_in(model(), limits, code);
    let header = RecordHeader {
        major: limits.major,
        minor: limits.minor,
        fields: 0,
        exception: 0,
        cpu: ran.model.cpu(),
    };
    let record = ran.outcome.record(header, &mut ran.memory);
    (written, record.unwrap().to_vec(), ran.outcome.end)
}

/// Makes the record by a layout.
fn by<F: Form>(plain: &Plain, model: &Model) -> Option<Vec<u8>> {
    assert_eq!(F::len(plain), plain.len());
    let mut bytes = vec![0xee; F::len(plain)];
    F::write(plain, model, &mut bytes[..]).then_some(bytes)
}

fn insn() -> impl Strategy<Value = Insn> {
    prop_oneof![
        3 => (0u64..20).prop_map(Insn::push),
        1 => Just(Insn::push(16)),
        2 => any::<u64>().prop_map(Insn::push),
        3 => (0u8..18).prop_map(|n| Insn::register(Op::PushR, Register::from_number(n).unwrap())),
        1 => (0u32..4).prop_map(|n| Insn::with(Op::PushLv, n)),
        1 => (0u32..2).prop_map(|n| Insn::with(Op::PushGv, n)),
        1 => prop_oneof![
            Just(Op::PushTask), Just(Op::PushPid), Just(Op::PushTid), Just(Op::PushProcId),
            Just(Op::PushTime), Just(Op::Pop)
        ].prop_map(Insn::new),
        2 => Just(Insn::new(Op::LogMrf)),
        3 => (0u32..5).prop_map(|n| Insn::with(Op::Log, n)),
        1 => Just(Insn::new(Op::Add)),
    ]
}

#[test]
fn what_was_logged_is_the_same() {
    let exit = Insn::new(Op::Exit);
    let words = [
        Insn::register(Op::PushR, Register::Di),
        Insn::push(5),
        Insn::with(Op::Log, 2),
        exit,
    ];
    let (plain, record, end) = both(&words, &LIMITS);
    assert_eq!((plain, end), (Some(record), End::Exit));
}

#[test]
fn memory_that_was_logged_is_the_same() {
    let exit = Insn::new(Op::Exit);
    for len in 1..40 {
        let memory = [
            Insn::push(len),
            Insn::register(Op::PushR, Register::Di),
            Insn::new(Op::LogMrf),
            Insn::new(Op::PushTime),
            Insn::with(Op::Log, 1),
            exit,
        ];
        let (plain, record, end) = both(&memory, &LIMITS);
        assert_eq!(end, End::Exit);
        // Up to 64 bytes are worth it: 16 before the entries, 3 before each entry, and the word.
        assert_eq!(
            plain,
            (len <= 64 - 16 - 3 - 3 - 8).then_some(record),
            "{len}"
        );
    }
}

#[test]
fn most_have_a_shape() {
    let [push, log, exit] = [Insn::push(16), Insn::with(Op::Log, 1), Insn::new(Op::Exit)];
    let memory = [push, push, Insn::new(Op::LogMrf)];
    let shape = |code: &[Insn]| {
        let code = [code, &[exit]].concat();
        both(&code, &LIMITS);
        Plain::new(&LIMITS, 0, &code).unwrap().shape()
    };
    assert_eq!(shape(&memory), Shape::Pair);
    assert_eq!(shape(&[push, log]), Shape::Word);
    assert_eq!(
        shape(&[push, push, Insn::with(Op::Log, 2)]),
        Shape::TwoWords
    );
    // Three words, other memory, and two entries.
    assert_eq!(
        shape(&[push, push, push, Insn::with(Op::Log, 3)]),
        Shape::Steps
    );
    let short = [Insn::push(8), push, Insn::new(Op::LogMrf)];
    assert_eq!(shape(&short), Shape::Steps);
    assert_eq!(shape(&[push, log, push, log]), Shape::Steps);
    assert_eq!(shape(&[&memory[..], &[push, log]].concat()), Shape::Steps);
}

#[test]
fn others_are_not_plain() {
    let [push, log, exit] = [Insn::push(1), Insn::with(Op::Log, 1), Insn::new(Op::Exit)];
    let is_plain = |code: &[Insn], limits: &Limits| Plain::new(limits, 0, code).is_some();
    assert!(is_plain(&[push, log, exit], &LIMITS));
    // Nothing logged; more than allowed; fields; missing words; other ends, and commands with other
    // effects.
    assert!(!is_plain(&[push, exit], &LIMITS));
    assert!(!is_plain(&[push, log, exit], &Limits { log: 10, ..LIMITS }));
    assert!(is_plain(&[push, log, exit], &Limits { log: 11, ..LIMITS }));
    assert!(Plain::new(&LIMITS, 1, &[push, log, exit]).is_none());
    assert!(!is_plain(&[log, exit], &LIMITS));
    assert!(!is_plain(&[push, log, Insn::new(Op::Abort)], &LIMITS));
    assert!(!is_plain(&[push, log, Insn::width(Op::Exit, 1)], &LIMITS));
    assert!(!is_plain(
        &[push, log, Insn::with(Op::IncLv, 0), exit],
        &LIMITS
    ));
    assert!(!is_plain(
        &[push, Insn::register(Op::PushR, Register::Cr0), log, exit],
        &LIMITS
    ));
    assert!(!is_plain(&[push; 9], &LIMITS));
    // Too long to be worth it.
    assert!(!is_plain(
        &[&[push; 6][..], &[Insn::with(Op::Log, 6), exit]].concat(),
        &LIMITS
    ));
}

#[test]
fn what_is_not_there_is_left_to_run() {
    let code = [
        Insn::push(16),
        Insn::push(u64::MAX - 4),
        Insn::new(Op::LogMrf),
        Insn::new(Op::Exit),
    ];
    assert!(Plain::new(&LIMITS, 0, &code).is_some());
    let (plain, _, end) = both(&code, &LIMITS);
    assert_eq!(plain, None);
    assert!(matches!(end, End::Fault(_)));
}

proptest! {
    #[test]
    fn it_is_as_run_does(code in proptest::collection::vec(insn(), 1..8), log in 0u32..60) {
        let limits = Limits { log, ..LIMITS };
        let code = [&code[..], &[Insn::new(Op::Exit)]].concat();
        let (plain, record, end) = both(&code, &limits);
        if let Some(plain) = plain {
            prop_assert_eq!(end, End::Exit);
            prop_assert_eq!(plain, record);
        }
    }
}
