// SPDX-License-Identifier: GPL-2.0

//! What takes the module of this directory: instructions that fault, calls, klog.

use std::io;

use ferro_core::rpn::*;

use crate::Case;
use crate::control::state;
use crate::kit::*;

pub const CASES: &[Case] = &[
    ("module.fault_discards", fault_discards),
    ("module.call", call_out),
    ("module.call_nothing", call_nothing),
    ("module.klog", klog),
];

const NAME: &str = "dprobes_selftest";

/// The module, until this is dropped.
struct Loaded;

impl Loaded {
    fn new() -> Self {
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

fn parameter(name: &str) -> String {
    format!("/sys/module/{NAME}/parameters/{name}")
}

/// Loads a word from an address, or with 0 from one that is there.
fn load(address: u64) -> io::Result<()> {
    std::fs::write(parameter("load"), format!("{address:#x}"))
}

/// What was logged before an instruction that then faults is not there, unless the point says so.
fn fault_discards() {
    let _module = Loaded::new();
    for (log_on_fault, logged) in [(false, 1), (true, 2)] {
        take_records();
        Program {
            name: NAME,
            symbol: "dprobes_selftest_load",
            header: Header {
                locals: 1,
                ..Header::new(ModuleKind::Module)
            },
            point: Point {
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

/// The module goes while a program calls it.
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

fn klog() {
    let _module = Loaded::new();
    take_records();
    for (offset, log_on_fault) in [(0, false), (5, false), (0, true)] {
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
