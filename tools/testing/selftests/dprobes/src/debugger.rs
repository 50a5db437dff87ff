// SPDX-License-Identifier: GPL-2.0

//! Tests of exits to the kernel's debugger, with the module `dprobes_kgdb` at its other end, and to
//! a crash.

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::state;
use crate::testlib::*;

/// Returns the cases; none without the kernel's debugger.
pub fn cases() -> &'static [Case] {
    match std::fs::exists(file()).unwrap() {
        true => &[("debugger.stops", stops)],
        false => &[],
    }
}

const NAME: &str = "dprobes_kgdb";

fn file() -> String {
    let kdir = std::env::var("FERROTRACE_KDIR").unwrap();
    format!("{kdir}/selftests-dprobes/module/{NAME}.ko")
}

fn parameter(name: &str) -> String {
    let path = format!("/sys/module/{NAME}/parameters/{name}");
    let value = std::fs::read_to_string(path).unwrap();
    value.trim().to_string()
}

/// Logs a word, and stops.
fn asks(offset: u64) -> Program<'static> {
    let mut program = Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::push(7),
        Insn::with(Op::Log, 1),
        Insn::width(Op::Exit, 1),
    ]));
    program.point.offset = offset;
    program
}

/// Stops once for each hit, and continues: at the entry, at a breakpoint, and where records wait.
/// Earlier records are written first. Without a connected debugger nothing stops.
fn stops() {
    for offset in [0, behind_entry(), offset_that_waits()] {
        asks(offset).load();
        call(1);
        assert_eq!(state().locals[0][0], 1);
        execute("insmod", &file());
        assert_eq!(parameter("stops"), "1");
        take_records();
        call(3);
        assert_eq!(parameter("stops"), "4");
        // A trap, of a breakpoint.
        assert!(parameter("said").contains("$T05thread:"));
        let entries = |record: &Logged| record.entries().len();
        assert_eq!(take_records().iter().map(entries).sum::<usize>(), 3);
        assert_eq!((state().locals[0][0], state().number("faults")), (4, 0));
        execute("rmmod", NAME);
        call(1);
        assert_eq!(state().locals[0][0], 5);
        crate::control::remove_all();
    }
}

/// Crashes the kernel by a program, for the guest's console to show.
pub fn crash() {
    Program::new(&in_this_process(&[Insn::width(Op::Exit, 2)]))
        .with_writes()
        .load();
    call(1);
    unreachable!("the kernel has not crashed");
}
