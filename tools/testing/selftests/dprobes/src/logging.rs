// SPDX-License-Identifier: GPL-2.0

//! Records.

use ferro_dprobes_core::*;

use crate::Case;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("logging.fields", fields),
    ("logging.abort", abort),
    ("logging.numbers", numbers),
    ("logging.after_the_instruction", after_the_instruction),
    ("logging.memory", memory),
    ("logging.beside", beside),
    ("logging.room", room),
    ("logging.limit", limit),
];

fn fields() {
    take_records();
    let mut program = Program::new(&in_this_process(&[
        Insn::push(7),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ]));
    program.set.fields = ALL_FIELDS;
    program.load();
    call(2);
    let records = take_records();
    assert_eq!(records.len(), 2);
    for logged in &records {
        assert_eq!(logged.kind, 1);
        let record = logged.record();
        let field = |field| record.field(field).unwrap();
        let word = |field, n: usize| {
            let bytes = record.field(field).unwrap();
            u64::from_le_bytes(bytes[8 * n..][..8].try_into().unwrap())
        };
        let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert!(field(Field::ProcName).starts_with(comm.trim().as_bytes()));
        let pid = word(Field::Pid, 0);
        assert_eq!(pid & 0xffff_ffff, std::process::id().into());
        // SAFETY: It takes nothing.
        assert_eq!(pid >> 32, unsafe { libc::gettid() } as u64);
        assert_eq!(word(Field::Uid, 0), 0);
        assert_eq!((word(Field::SsEsp, 0), word(Field::CsEip, 0)), (0x18, 0x10));
        assert!(word(Field::SsEsp, 1) > 1 << 63 && word(Field::CsEip, 1) > 1 << 63);
        assert!(word(Field::Psw, 0) & 2 != 0 && word(Field::Upsw, 0) & 2 != 0);
        let entries = logged.entries();
        assert!(matches!(entries[..], [Entry::Words(words)] if words.iter().eq([7])));
    }
    let tsc = |n: usize| {
        let record = records[n].record();
        u64::from_le_bytes(record.field(Field::Tsc).unwrap().try_into().unwrap())
    };
    assert!(tsc(1) > tsc(0) && records[1].time > records[0].time);
}

/// Nothing is left of a run that aborts, and nothing is written for one that logs nothing.
fn abort() {
    take_records();
    for end in [Op::Abort, Op::Exit] {
        let log = match end {
            Op::Abort => Insn::with(Op::Log, 1),
            _ => Insn::new(Op::Pop),
        };
        Program::new(&in_this_process(&[Insn::push(7), log, Insn::new(end)])).load();
        call(3);
        assert!(take_records().is_empty());
        crate::control::remove_all();
    }
}

fn numbers() {
    take_records();
    Program::new(&in_this_process(&[
        Insn::with(Op::SetMin, 40),
        Insn::push(41),
        Insn::from_stack(Op::SetMaj),
        Insn::push(7),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ]))
    .load();
    call(1);
    let records = take_records();
    let header = records[0].record().header;
    assert_eq!((header.major, header.minor), (41, 40));
}

/// Two points at one place, each with its own records.
fn after_the_instruction() {
    take_records();
    for (offset, name) in [
        (0, "at an ftrace site"),
        (behind_entry(), "at an instruction that cannot fault"),
        (offset_that_waits(), "at one that may"),
    ] {
        let program = |name, word| Program {
            name,
            point: Point {
                offset,
                ..Point::new(1)
            },
            ..Program::new(&in_this_process(&[
                Insn::push(word),
                Insn::with(Op::Log, 1),
                Insn::new(Op::Exit),
            ]))
        };
        program("one", 1).load();
        program("two", 2).load();
        program("three", 3).load();
        call(10);
        let records = take_records();
        for word in 1..=3 {
            let of_word = |entries: Vec<Entry<'_>>| matches!(entries[..], [Entry::Words(words)] if words.iter().eq([word]));
            let found = records.iter().filter(|logged| of_word(logged.entries()));
            assert_eq!(found.count(), 10, "{name}: {word}");
        }
        assert_eq!(records.len(), 30, "{name}");
        crate::control::remove_all();
    }
}

/// Logs two words of memory, on the stack and elsewhere, and other lengths: the values are those
/// that `push mem` reads.
fn memory() {
    let process = u64::from(std::process::id());
    Program::new(&[Insn::new(Op::Exit)]).load();
    let code = &crate::control::state().points[0]["address"];
    let code = u64::from_str_radix(code.trim_start_matches("0x"), 16).unwrap();
    crate::control::remove_all();
    for address in [
        Insn::register(Op::PushR, Register::Sp),
        // The registers of the call, also on the stack; the code is not.
        Insn::register(Op::PushR, Register::Di),
        Insn::push(code + 16),
    ] {
        for len in [8, 16, 24] {
            take_records();
            let exit = Insn::new(Op::Exit);
            let mut logs = Program::new(&[
                Insn::new(Op::PushPid),
                Insn::with(Op::Log, 1),
                Insn::push(len),
                address,
                Insn::new(Op::LogMrf),
                exit,
            ]);
            logs.name = "logs";
            logs.load();
            let words = (0..len / 8).rev().flat_map(|n| {
                let at = [address, Insn::push(8 * n), Insn::new(Op::Add)];
                [&at[..], &[Insn::width(Op::PushMem, 8)]].concat()
            });
            let mut pushes = words.collect::<Vec<_>>();
            pushes.extend([Insn::with(Op::Log, len as u32 / 8), exit]);
            Program::new(&in_this_process(&pushes)).load();
            call(1);
            let records = take_records();
            let of_pushes = records
                .iter()
                .find_map(|logged| match logged.entries()[..] {
                    [Entry::Words(words)] => Some(words.iter().collect::<Vec<_>>()),
                    _ => None,
                });
            let of_logs = records
                .iter()
                .find_map(|logged| match logged.entries()[..] {
                    [Entry::Words(pid), Entry::Memory(bytes)] if pid.iter().eq([process]) => {
                        let words = bytes
                            .chunks(8)
                            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                        Some(words.collect::<Vec<_>>())
                    }
                    _ => None,
                });
            assert_eq!(
                of_logs.expect("no record"),
                of_pushes.expect("no record of words")
            );
            crate::control::remove_all();
        }
    }
}

/// Checks that points of one instruction have a record of each hit, of any length, also where
/// another point aborts.
fn beside() {
    const CALLS: u64 = 20;
    let exit = Insn::new(Op::Exit);
    let word = [Insn::push(1), Insn::with(Op::Log, 1), exit];
    let two = [Insn::push(2), Insn::push(2), Insn::with(Op::Log, 2), exit];
    let pair = [
        Insn::push(16),
        Insn::register(Op::PushR, Register::Sp),
        Insn::new(Op::LogMrf),
        exit,
    ];
    let run = in_this_process(&two);
    let aborts = [&two[..3], &[Insn::new(Op::Abort)]].concat();
    let offset = offset_that_waits();
    let load = |name, minor, code: &[Insn]| {
        let mut program = Program::new(code);
        program.name = name;
        program.point.offset = offset;
        program.point.minor = minor;
        program.load();
    };
    let all: [(&str, &[Insn]); 5] = [
        ("word", &word),
        ("two", &two),
        ("pair", &pair),
        ("run", &run),
        ("aborts", &aborts),
    ];
    // Each is called first once, and last once.
    for first in 0..all.len() {
        take_records();
        for (minor, n) in (0..).zip((first..).take(all.len())) {
            let (name, code) = all[n % all.len()];
            load(name, minor, code);
        }
        // Others may call it, too.
        on_one_cpu(|| call(CALLS));
        let records = take_records();
        for (minor, n) in (0..).zip((first..).take(all.len())) {
            let (name, _) = all[n % all.len()];
            let of_this = |logged: &&Logged| logged.record().header.minor == minor;
            let count = records.iter().filter(of_this).count() as u64;
            match name {
                "aborts" => assert_eq!(count, 0),
                "run" => assert_eq!(count, CALLS),
                _ => assert!(count >= CALLS, "{name} after {first}: {count}"),
            }
        }
        let state = crate::control::state();
        let truncated = |point| crate::control::number(point, "truncated");
        assert_eq!(state.points.iter().map(truncated).sum::<u64>(), 0);
        crate::control::remove_all();
    }
}

/// Checks points of one instruction with records that are too long together: dropped records are
/// counted.
fn room() {
    static BYTES: [u8; 4000] = [7; 4000];
    const CALLS: u64 = 10;
    take_records();
    let offset = offset_that_waits();
    for name in ["a", "b", "c", "d", "e"] {
        let mut program = Program::new(&in_this_process(&[
            Insn::push(4000),
            Insn::push(BYTES.as_ptr() as u64),
            Insn::new(Op::LogMrf),
            Insn::new(Op::Exit),
        ]));
        // So that the memory is there.
        assert!(std::hint::black_box(&BYTES).iter().all(|byte| *byte == 7));
        program.name = name;
        program.point.offset = offset;
        program.header.logmax = LOG_MAX;
        program.load();
    }
    call(CALLS);
    let records = take_records();
    let state = crate::control::state();
    let points = state.points.iter();
    let truncated = points.map(|point| crate::control::number(point, "truncated"));
    let mut truncated = truncated.collect::<Vec<_>>();
    truncated.sort_unstable();
    assert_eq!(
        records.len() as u64 + truncated.iter().sum::<u64>(),
        5 * CALLS
    );
    assert_eq!(truncated, [0, 0, 0, 0, CALLS]);
    for logged in &records {
        assert!(matches!(logged.entries()[..], [Entry::Memory(bytes)] if bytes == BYTES));
    }
}

/// Checks that data beyond the limit is left out; an exception reports it if wanted.
fn limit() {
    take_records();
    let mut program = Program::new(&in_this_process(&[
        Insn::push(7),
        Insn::with(Op::Log, 1),
        Insn::push(8),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ]));
    program.header.logmax = 12;
    program.load();
    call(1);
    let records = take_records();
    let entries = records[0].entries();
    assert!(matches!(entries[..], [Entry::Words(words)] if words.iter().eq([7])));
    assert_eq!(crate::control::state().number("truncated"), 1);
    program.point.ex_mask |= u32::from(Exception::Log.bit());
    program.set.flags = REPLACE;
    program.load();
    call(1);
    let records = take_records();
    let entries = records[0].entries();
    assert!(matches!(
        entries[..],
        [
            Entry::Words(_),
            Entry::Exception(
                Fault {
                    exception: Exception::Log,
                    ..
                },
                8
            )
        ]
    ));
}
