// SPDX-License-Identifier: GPL-2.0

//! Sets as files, for tests that load them themselves: one for each kind of point.

use ferro_dprobes_core::*;

use crate::arm;
use crate::module;
use crate::testlib::*;
use crate::user;
use crate::watch;

const LOGS: [Insn; 3] = [Insn::push(7), Insn::with(Op::Log, 1), Insn::new(Op::Exit)];

/// Writes them to a directory.
pub fn write(dir: &str) {
    let path = user::path();
    let counts = [Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)];
    let kernel = Program::new(&counts);
    // Within a function, where records wait.
    let mut logging = Program::new(&LOGS);
    logging.point.offset = behind_entry();
    // Two points of one program at one place.
    let point = PointSource {
        point: Point::new(1),
        symbol: SYMBOL,
        code: &LOGS,
    };
    let two = Program::new(&[]).bytes_of(&[point, point]);
    // The new program replaces a loaded one, and is the same.
    let mut replace = Program::new(&counts);
    replace.set.flags = REPLACE;
    for (name, bytes) in [
        ("kernel", kernel.bytes()),
        ("logging", logging.bytes()),
        ("user", user::program(&path, &LOGS).bytes()),
        ("watch", watch::of_a_word(&counts).bytes()),
        ("later", arm::set()),
        ("module", module::at_init().bytes()),
        ("two", two),
        ("replace", replace.bytes()),
    ] {
        std::fs::write(format!("{dir}/{name}.set"), bytes).unwrap();
    }
}
