// SPDX-License-Identifier: GPL-2.0

//! Tests of the log, and of records.

use super::*;

fn plain(op: Op) -> Insn {
    Insn::new(op)
}

const TEXT: &[u8] = b"a name\0and more";

fn logged(op: Op, len: u64, address: u64, limits: &Limits) -> Ran {
    let code = [
        Insn::push(len),
        Insn::push(address),
        plain(op),
        plain(Op::Exit),
    ];
    run_in(Model::with_bytes(0x1000, TEXT), limits, &code)
}

#[test]
fn memory_and_strings() {
    let memory = logged(Op::LogMrf, 15, 0x1000, &LIMITS);
    assert_eq!(memory.entries(), [Entry::Memory(TEXT)]);
    let text = logged(Op::LogStr, 15, 0x1000, &LIMITS);
    assert_eq!(text.entries(), [Entry::Text(b"a name")]);
    let part = logged(Op::LogStr, 4, 0x1000, &LIMITS);
    assert_eq!(part.entries(), [Entry::CutText(b"a na")]);
    assert!(!part.outcome.overflowed);
    // Its end is the last requested byte.
    let whole = logged(Op::LogStr, 7, 0x1000, &LIMITS);
    assert_eq!(whole.entries(), [Entry::Text(b"a name")]);
    let long = logged(Op::LogStr, u64::MAX, 0x1000, &LIMITS);
    assert_eq!(long.entries(), [Entry::Text(b"a name")]);
    let nothing = logged(Op::LogMrf, 0, 0x1000, &LIMITS);
    assert_eq!(nothing.entries(), [Entry::Memory(b"")]);
}

#[test]
fn what_is_not_there_leaves_its_address() {
    for op in [Op::LogMrf, Op::LogStr] {
        let ran = logged(op, 4, 0x2000, &LIMITS);
        let fault = Fault::new(Exception::Address, 0x2000);
        assert_eq!(
            ran.entries(),
            [Entry::NotThere(0x2000), Entry::Exception(fault, 2)]
        );
        let goes_on = Limits {
            ex_mask: MASK_DEFAULT & !u32::from(Exception::Address.bit()),
            ..LIMITS
        };
        let ran = logged(op, 4, 0x2000, &goes_on);
        assert_eq!(ran.end(), End::Exit);
        assert_eq!(ran.entries(), [Entry::NotThere(0x2000)]);
    }
}

#[test]
fn variables_and_words() {
    let ran = run_code(&[
        Insn::with(Op::IncLv, 1),
        Insn::with(Op::IncGv, 0),
        Insn::variables(Op::LogLv, 1, 2),
        Insn::variables(Op::LogGv, 0, 1),
        Insn::push(1),
        Insn::push(2),
        Insn::push(2),
        Insn::from_stack(Op::Log),
        plain(Op::Exit),
    ]);
    let entries = ran.entries();
    assert!(matches!(entries[0], Entry::Locals(1, words) if words.iter().eq([1, 0])));
    assert!(matches!(entries[1], Entry::Globals(0, words) if words.iter().eq([1])));
    assert_eq!(ran.words(), [2, 1]);
}

#[test]
fn a_log_that_is_full() {
    let small = Limits { log: 20, ..LIMITS };
    let ran = logged(Op::LogMrf, 15, 0x1000, &small);
    assert_eq!(ran.entries().len(), 1);
    let smaller = Limits { log: 17, ..LIMITS };
    let ran = logged(Op::LogMrf, 15, 0x1000, &smaller);
    assert!(ran.outcome.overflowed && ran.outcome.is_empty());
    assert_eq!(ran.end(), End::Exit);
    let strict = Limits {
        ex_mask: MASK_DEFAULT | u32::from(Exception::Log.bit()),
        ..smaller
    };
    let ran = logged(Op::LogMrf, 15, 0x1000, &strict);
    assert_eq!(ran.fault(), Some((Exception::Log, 15)));
    // The exception has room of its own.
    assert_eq!(ran.entries().len(), 1);
    // As much of a string as fits, marked as cut.
    let smallest = Limits { log: 6, ..LIMITS };
    let ran = logged(Op::LogStr, 100, 0x1000, &smallest);
    assert_eq!(ran.entries(), [Entry::CutText(b"a n")]);
    assert!(ran.outcome.overflowed);
    let fits = Limits { log: 10, ..LIMITS };
    let ran = logged(Op::LogStr, 100, 0x1000, &fits);
    assert_eq!(ran.entries(), [Entry::Text(b"a name")]);
    assert!(!ran.outcome.overflowed);
}

#[test]
fn words_that_do_not_fit_are_taken() {
    let small = Limits { log: 10, ..LIMITS };
    let code = [
        Insn::push(4),
        Insn::push(1),
        Insn::push(2),
        Insn::with(Op::Log, 2),
        Insn::from_stack(Op::SetMaj),
        plain(Op::Exit),
    ];
    let ran = run_in(Model::new(), &small, &code);
    assert_eq!(ran.outcome.major, 4);
    assert!(ran.outcome.overflowed);
}

#[test]
fn the_pointer_of_the_log() {
    let log = [Insn::push(9), Insn::with(Op::Log, 1)];
    let code = [
        &log[..],
        &log,
        &[plain(Op::PushLp), Insn::from_stack(Op::SetMaj)],
        &[plain(Op::PushPlp), Insn::from_stack(Op::SetMin)],
        &[plain(Op::PushPlp), plain(Op::PopLp), plain(Op::Exit)],
    ]
    .concat();
    let ran = run_code(&code);
    assert_eq!((ran.outcome.major, ran.outcome.minor), (22, 11));
    assert_eq!(ran.words(), [9]);
    for pointer in [1, 12, 23, 1024, u64::MAX] {
        let code = [
            &log[..],
            &log,
            &[Insn::push(pointer), plain(Op::PopLp), plain(Op::Exit)],
        ];
        let ran = run_code(&code.concat());
        assert_eq!(
            ran.fault(),
            Some((Exception::Operand, pointer)),
            "{pointer}"
        );
    }
}

#[test]
fn records() {
    let header = RecordHeader {
        major: 1,
        minor: 2,
        fields: Field::Pid.bit() | Field::Tsc.bit(),
        exception: Exception::Divide.bit(),
        cpu: 3,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend([1, 0, 0, 0, 2, 0, 0, 0]);
    bytes.extend(5u64.to_le_bytes());
    bytes.extend([1, 2, 0, b'h', b'i']);
    let record = RecordRef::decode(&bytes).unwrap();
    assert_eq!(record.header, header);
    assert_eq!(
        record.field(Field::Pid),
        Some(&[1, 0, 0, 0, 2, 0, 0, 0][..])
    );
    assert_eq!(record.field(Field::Tsc), Some(&5u64.to_le_bytes()[..]));
    assert_eq!(record.field(Field::Uid), None);
    let entries = record.entries().collect::<Vec<_>>();
    assert_eq!(entries, [Ok(Entry::Text(b"hi"))]);
    for len in 0..RECORD_LEN + 16 {
        assert!(RecordRef::decode(&bytes[..len]).is_none());
    }
    bytes.pop();
    let record = RecordRef::decode(&bytes).unwrap();
    let rest = record.entries().collect::<Vec<_>>();
    assert_eq!(rest, [Err(&[1, 2, 0, b'h'][..])]);
    for field in FIELDS {
        assert_eq!(Field::from_name(field.name()), Some(*field));
    }
}
