// SPDX-License-Identifier: GPL-2.0

//! Tests that need the module of this directory: instructions that fault, calls, klog.

use std::io;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::state;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("module.fault_discards", fault_discards),
    ("module.plain_discards", plain_discards),
    ("module.waits", waits),
    ("module.nothing_stale", nothing_stale),
    ("module.exit_keeps", exit_keeps),
    ("module.call", call_out),
    ("module.call_nothing", call_nothing),
    ("module.missed", missed),
    ("module.klog", klog),
    ("module.klog_cut", klog_cut),
    ("module.klog_lost", klog_lost),
    ("module.exits", exits),
    ("module.used_up_missed", used_up_missed),
];

pub const NAME: &str = "dprobes_selftest";
/// Of the module: loads a word.
const READ: &str = "dprobes_selftest_read";
/// Offset of its load instruction: after an ftrace site and an instruction of two bytes.
const LOAD_OFFSET: u64 = 7;

/// The module, until this is dropped.
pub struct Loaded;

impl Loaded {
    pub fn new() -> Self {
        let kdir = std::env::var("FERROTRACE_KDIR").unwrap();
        execute(
            "insmod",
            &format!("{kdir}/selftests-dprobes/module/{NAME}.ko"),
        );
        Self
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        execute("rmmod", NAME);
    }
}

/// A program that counts how often the module begins.
pub fn at_init() -> Program<'static> {
    Program {
        name: NAME,
        symbol: "init_module",
        header: Header {
            locals: 1,
            ..Header::new(ModuleKind::Module)
        },
        ..Program::new(&[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)])
    }
}

pub fn parameter(name: &str) -> String {
    format!("/sys/module/{NAME}/parameters/{name}")
}

/// Loads a word from an address, or with 0 from a valid one.
fn load(address: u64) -> io::Result<()> {
    std::fs::write(parameter("load"), format!("{address:#x}"))
}

/// Checks that records logged before a faulting instruction are discarded, unless the point asks
/// for them.
fn fault_discards() {
    let _module = Loaded::new();
    for (log_on_fault, logged) in [(false, 1), (true, 2)] {
        take_records();
        Program {
            name: NAME,
            symbol: READ,
            header: Header {
                locals: 1,
                ..Header::new(ModuleKind::Module)
            },
            point: Point {
                offset: LOAD_OFFSET,
                log_on_fault,
                ..Point::new(1)
            },
            ..Program::new(&[
                Insn::with(Op::IncLv, 0),
                Insn::variables(Op::LogLv, 0, 1),
                Insn::new(Op::Exit),
            ])
        }
        .load();
        // Nothing is there.
        let fault = load(0xffff_8000_0000_0000);
        assert_eq!(fault.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        load(0).unwrap();
        assert_eq!(state().locals[0][0], 2);
        let records = take_records();
        assert_eq!(records.len(), logged, "log_on_fault {log_on_fault}");
        let entries = records.last().unwrap().entries();
        assert!(matches!(entries[..], [Entry::Locals(0, words)] if words.iter().eq([2])));
        crate::control::remove_all();
    }
}

/// Checks the same for programs with a record that is made without a run. The memory that they log
/// is present, or not.
fn plain_discards() {
    let _module = Loaded::new();
    for (address, logged) in [
        (Insn::register(Op::PushR, Register::Sp), 16),
        (Insn::push(0), 0),
    ] {
        take_records();
        at_load(&[
            Insn::push(16),
            address,
            Insn::new(Op::LogMrf),
            Insn::new(Op::Exit),
        ])
        .load();
        fault_and_load();
        let records = take_records();
        assert_eq!(records.len(), 1);
        match (&records[0].entries()[..], logged) {
            ([Entry::Memory(bytes)], 16) => assert_eq!(bytes.len(), 16),
            ([Entry::NotThere(0), Entry::Exception(..)], 0) => (),
            (other, _) => panic!("{other:?}"),
        }
        let state = state();
        assert_eq!((state.number("hits"), state.number("runs")), (2, 2));
        crate::control::remove_all();
    }
}

/// Checks that records wait where the instruction may fault, and only there. Records that do not
/// wait are written as well.
fn waits() {
    let _module = Loaded::new();
    // After ftrace's site: xor, mov from memory, mov to memory, mov of a number.
    for (offset, waits) in [(5, 0), (LOAD_OFFSET, 1), (10, 1), (13, 0)] {
        take_records();
        let mut program = at_load(&[Insn::push(7), Insn::with(Op::Log, 1), Insn::new(Op::Exit)]);
        program.point.offset = offset;
        program.load();
        assert_eq!(state().number("waits"), waits, "{offset}");
        on_one_cpu(|| load(0).unwrap());
        assert_eq!(take_records().len(), 1, "{offset}");
        // A program that resumes elsewhere waits, to see if it does. A program that logs faults
        // does not wait.
        program.code.splice(
            0..0,
            [
                Insn::register(Op::PushR, Register::Ip),
                Insn::register(Op::PopR, Register::Ip),
            ],
        );
        program.set.flags = REPLACE;
        program.with_writes().load();
        assert_eq!(state().number("waits"), 1, "{offset}");
        crate::control::remove_all();
    }
}

/// A program at the instruction that faults.
fn at_load(code: &[Insn]) -> Program<'static> {
    let mut program = Program {
        name: NAME,
        symbol: READ,
        header: Header::new(ModuleKind::Module),
        ..Program::new(code)
    };
    program.point.offset = LOAD_OFFSET;
    program
}

/// On one CPU: nothing is there, and then a word is.
fn fault_and_load() {
    on_one_cpu(|| {
        let fault = load(0xffff_8000_0000_0000);
        assert_eq!(fault.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        load(0).unwrap();
    });
}

/// Checks that the record of a faulted instruction is not written at a later hit, where the program
/// does not run.
fn nothing_stale() {
    let _module = Loaded::new();
    take_records();
    let logs = |end| [Insn::push(7), Insn::with(Op::Log, 1), Insn::new(end)];
    // Has run as often as it may; or has removed itself.
    for (end, max_hits, state_after) in [(Op::Exit, 1, "disabled"), (Op::Rem, 100, "removed")] {
        for with_other in [false, true] {
            let mut program = at_load(&logs(end));
            program.point.max_hits = max_hits;
            program.load();
            // Another program at the same instruction, with records of its own.
            let mut other = at_load(&[Insn::push(8), Insn::with(Op::Log, 1), Insn::new(Op::Exit)]);
            other.point.pass_count = 1;
            other.set.flags = MERGE;
            if with_other {
                other.load();
            }
            fault_and_load();
            let records = take_records();
            assert_eq!(records.len(), usize::from(with_other), "{state_after}");
            for logged in &records {
                let entries = logged.entries();
                assert!(matches!(entries[..], [Entry::Words(words)] if words.iter().eq([8])));
            }
            let state = state();
            assert_eq!(state.points[0]["state"], state_after);
            // The breakpoint may be removed before the second hit.
            assert!(matches!(state.number("hits"), 1 | 2));
            assert_eq!(state.number("runs"), 1);
            crate::control::remove_all();
        }
    }
    // A program that takes the place of another has none of its records.
    for _ in 0..20 {
        at_load(&logs(Op::Exit)).load();
        on_one_cpu(|| load(0xffff_8000_0000_0000).unwrap_err());
        let mut next = at_load(&logs(Op::Exit));
        next.point.pass_count = 10;
        crate::control::remove_all();
        next.load();
        on_one_cpu(|| load(0).unwrap());
        assert!(take_records().is_empty());
        crate::control::remove_all();
    }
}

/// Checks that records logged before an exit to the debugger are written at once, as the debugger
/// may never return. Without a debugger here, the instruction is executed, and faults.
fn exit_keeps() {
    let _module = Loaded::new();
    for (way, logged) in [(0, 1), (1, 2)] {
        take_records();
        at_load(&[
            Insn::push(7),
            Insn::with(Op::Log, 1),
            Insn::width(Op::Exit, way),
        ])
        .load();
        fault_and_load();
        assert_eq!(take_records().len(), logged, "exit {way}");
        crate::control::remove_all();
    }
}

fn calling(number: u32) -> Program<'static> {
    Program::new(&in_this_process(&[
        Insn::push(20),
        Insn::with(Op::CallK, number),
        Insn::with(Op::PopLv, 0),
        Insn::new(Op::Exit),
    ]))
}

fn call_out() {
    let _module = Loaded::new();
    assert_eq!(calling(5).refused().0, libc::EPERM);
    calling(5).with_writes().load();
    call(3);
    assert_eq!(state().locals[0][0], 41);
    let called = std::fs::read_to_string(parameter("called")).unwrap();
    assert_eq!(called.trim(), "3");
}

/// Unloads the module while a program calls it.
fn call_nothing() {
    calling(5).with_writes().load();
    let module = Loaded::new();
    let caller = std::thread::spawn(|| call(20_000));
    drop(module);
    caller.join().unwrap();
    call(1);
    let state = state();
    assert!(state.number("faults") >= 1);
    assert_eq!(state.locals[0][0] % 41, 0);
    let mut other = calling(64).with_writes();
    other.name = "other";
    other.load();
    call(1);
    assert_eq!(
        crate::control::number(&crate::control::state().points[1], "faults"),
        1
    );
}

/// Checks that missed hits of a point in a module (inside a program that calls there) are counted,
/// also after the module is unloaded.
fn missed() {
    let mut point = at_init();
    point.symbol = "call";
    point.load();
    let mut caller = calling(5).with_writes();
    caller.name = "vmlinux";
    caller.load();
    for round in 1..3 {
        let module = Loaded::new();
        call(3);
        assert_eq!(state().number("missed"), 3 * round);
        drop(module);
        let state = state();
        assert_eq!(
            (state.number("missed"), state.number("hits")),
            (3 * round, 0)
        );
    }
}

/// Checks that missed hits, however many, do not use up a point that may run once: it still has its
/// run.
fn used_up_missed() {
    let _module = Loaded::new();
    let mut point = at_init();
    point.symbol = "dprobes_selftest_take";
    // The program is missed inside the program of a uprobe.
    point.code = vec![
        Insn::with(Op::IncLv, 0),
        Insn::push(1),
        Insn::new(Op::Pop),
        Insn::new(Op::Exit),
    ];
    point.point.max_hits = 1;
    point.load();
    let path = crate::user::path();
    let code = [
        Insn::push(20),
        Insn::with(Op::CallK, 5),
        Insn::new(Op::Pop),
        Insn::new(Op::Exit),
    ];
    crate::user::program(&path, &code).with_writes().load();
    for _ in 0..10 {
        crate::user::target(1, std::ptr::null());
    }
    let missed = state();
    assert_eq!(missed.points[0]["state"], "active");
    assert_eq!((missed.number("missed"), missed.number("runs")), (10, 0));
    std::fs::write(parameter("object"), "1").unwrap();
    let used = comes(|state| {
        state.points[0]["state"] == "disabled" && state.points[0]["address"] == "0x0"
    });
    assert_eq!((used.number("runs"), used.locals[0][0]), (1, 1));
}

/// A line that is too long for klog is cut, and ends with a mark.
fn klog_cut() {
    let _module = Loaded::new();
    let mut program = Program::new(&in_this_process(&[
        Insn::push(600),
        Insn::register(Op::PushR, Register::Sp),
        Insn::new(Op::LogMrf),
        Insn::new(Op::Exit),
    ]));
    program.set.target = Target::Klog;
    program.load();
    call(1);
    let message = std::fs::read(parameter("klog")).unwrap();
    // The parameter adds an end of line.
    assert_eq!(message.len(), 1023 + 1);
    assert!(message.ends_with(b"...\n\n"), "{}", message.escape_ascii());
}

/// Records for klog without a handler are counted.
fn klog_lost() {
    let lost = || crate::control::number(&state().klog, "lost");
    let mut program = Program::new(&in_this_process(&[
        Insn::push(0x1234),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ]));
    program.set.target = Target::Klog;
    program.load();
    let before = lost();
    assert_eq!(state().klog["handler"], "0");
    call(3);
    assert_eq!(lost(), before + 3);
    let _module = Loaded::new();
    assert_eq!(state().klog["handler"], "1");
    call(3);
    assert_eq!(lost(), before + 3);
}

/// Passes the records of a program to the function that it exits to.
fn exits() {
    let _module = Loaded::new();
    let ending = |number| {
        Program::new(&in_this_process(&[
            Insn::push(0x1234),
            Insn::with(Op::Log, 1),
            Insn::width(Op::Exit, number),
        ]))
    };
    assert_eq!(ending(5).refused().0, libc::EPERM);
    assert_eq!(ending(64).with_writes().refused().0, libc::EINVAL);
    take_records();
    ending(5).with_writes().load();
    call(2);
    let seen = std::fs::read_to_string(parameter("exited")).unwrap();
    // Two bytes of a length, after the kind of words.
    assert_eq!(seen.trim(), "2 1.2 11 02 08 00 34 12 00 00 00 00 00 00");
    crate::control::remove_all();
    // Nothing is registered.
    ending(6).with_writes().load();
    call(1);
    let seen = std::fs::read_to_string(parameter("exited")).unwrap();
    assert!(seen.starts_with("2 "), "{seen}");
    assert_eq!(words_of(&take_records()), [0x1234; 3]);
}

fn klog() {
    let _module = Loaded::new();
    take_records();
    for (offset, log_on_fault) in [(0, false), (behind_entry(), false), (0, true)] {
        let mut program = Program::new(&in_this_process(&[
            Insn::push(0x1234),
            Insn::with(Op::Log, 1),
            Insn::push(0),
            Insn::width(Op::PushMem, 1),
            Insn::new(Op::Exit),
        ]));
        program.point.offset = offset;
        program.point.log_on_fault = log_on_fault;
        program.set.target = Target::Klog;
        program.set.flags = REPLACE;
        program.load();
        call(1);
        let message = std::fs::read_to_string(parameter("klog")).unwrap();
        let expected = "words 0x1234 exception at 8: memory is not there (0x0)";
        assert!(message.starts_with("dprobe 1.2 cpu "), "{message}");
        assert!(message.trim().ends_with(expected), "{message}");
    }
    assert!(take_records().is_empty());
    assert_eq!(state().programs[0]["target"], "klog");
}
