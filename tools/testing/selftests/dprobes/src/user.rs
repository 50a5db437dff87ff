// SPDX-License-Identifier: GPL-2.0

//! Points in user space: in this program.

use std::process::Command;

use ferro_core::rpn::*;

use crate::Case;
use crate::control::state;
use crate::kit::*;

pub const CASES: &[Case] = &[
    ("user.arguments", arguments),
    ("user.other_processes", other_processes),
    ("user.changes", changes),
    ("user.with_the_kernel", with_the_kernel),
    ("user.opcode", opcode),
    ("user.refused", refused),
    ("user.core_dump", core_dump),
];

/// What is probed.
#[inline(never)]
pub extern "C" fn target(a: u64, b: *const u8) -> u64 {
    std::hint::black_box(b);
    std::hint::black_box(a) + 1
}

/// What a process does that is started for this: see main.rs.
pub fn child(calls: u64) {
    for n in 0..calls {
        target(n, std::ptr::null());
    }
}

/// Where a function of this program is in its file.
fn offset_of(address: u64) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (number(start), number(end));
        let offset = number(words.nth(1)?);
        (start..end)
            .contains(&address)
            .then(|| address - start + offset)
    });
    found.unwrap()
}

pub fn path() -> String {
    let path = std::env::current_exe().unwrap();
    path.to_str().unwrap().to_string()
}

/// Of the function above, in a file.
pub fn program<'a>(path: &'a str, code: &[Insn]) -> Program<'a> {
    Program {
        name: path,
        symbol: "",
        header: Header {
            locals: 4,
            ..Header::new(ModuleKind::User)
        },
        point: Point {
            offset: offset_of(target as *const () as u64),
            ..Point::new(1)
        },
        ..Program::new(code)
    }
}

fn arguments() {
    static TEXT: &[u8] = b"seen from the kernel\0";
    take_records();
    let path = path();
    let mut program = program(
        &path,
        &[
            Insn::with(Op::IncLv, 0),
            Insn::register(Op::PushR, Register::Di),
            Insn::register(Op::PushU, Register::Di),
            Insn::register(Op::PushR, Register::Cs),
            Insn::with(Op::Log, 3),
            Insn::push(64),
            Insn::register(Op::PushR, Register::Si),
            Insn::new(Op::LogStr),
            Insn::new(Op::Exit),
        ],
    );
    program.set.fields = Field::Pid.bit().into();
    program.load();
    assert_eq!(target(41, TEXT.as_ptr()), 42);
    assert_eq!(target(42, TEXT.as_ptr()), 43);
    assert_eq!(state().locals[0][0], 2);
    assert_eq!(state().points[0]["state"], "active");
    let records = take_records();
    for (logged, n) in records.iter().zip(41..) {
        let entries = logged.entries();
        assert!(matches!(entries[0], Entry::Words(words) if words.iter().eq([0x33, n, n])));
        assert_eq!(entries[1], Entry::Text(b"seen from the kernel"));
    }
    assert_eq!(records.len(), 2);
    crate::control::remove_all();
    assert_eq!(target(1, TEXT.as_ptr()), 2);
}

/// Those that are started later, several at a time.
fn other_processes() {
    let path = path();
    program(&path, &[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)]).load();
    let start = || Command::new(&path).arg("child=50").spawn().unwrap();
    let children = [start(), start(), start()];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let state = state();
    assert_eq!(state.locals[0][0] + state.number("missed"), 150);
    assert_eq!(state.number("hits"), 150);
}

fn changes() {
    let path = path();
    program(
        &path,
        &[
            Insn::push(99),
            Insn::register(Op::PopR, Register::Di),
            Insn::new(Op::Exit),
        ],
    )
    .with_writes()
    .load();
    assert_eq!(target(1, std::ptr::null()), 100);
}

/// A point in user space says what one in the kernel has to look for.
fn with_the_kernel() {
    let path = path();
    program(
        &path,
        &[
            Insn::register(Op::PushR, Register::Di),
            Insn::with(Op::PopGv, 0),
            Insn::new(Op::Exit),
        ],
    )
    .with_globals()
    .load();
    Program::new(&in_this_process(&[
        Insn::with(Op::PushGv, 0),
        Insn::push(5),
        Insn::new(Op::Sub),
        Insn::with(Op::Jnz, 5),
        Insn::with(Op::IncLv, 0),
        Insn::new(Op::Exit),
    ]))
    .load();
    for n in 3..8 {
        target(n, std::ptr::null());
        call(2);
    }
    assert_eq!(state().locals[1][0], 2);
}

impl Program<'_> {
    fn with_globals(mut self) -> Self {
        self.header.globals = 4;
        self
    }
}

fn opcode() {
    let path = path();
    let mut program = program(&path, &[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)]);
    program.point.opcode = Some(0xf4);
    program.load();
    target(1, std::ptr::null());
    let state = state();
    assert_eq!(state.points[0]["state"], "mismatch");
    assert_eq!(state.locals[0][0], 0);
}

fn refused() {
    let path = path();
    let code = [Insn::new(Op::Exit)];
    assert_eq!(
        program("/there/is/no/such/file", &code).refused().0,
        libc::ENOENT
    );
    assert_eq!(program("/", &code).refused().0, libc::EINVAL);
    let mut far = program(&path, &code);
    far.point.offset = 1 << 40;
    let (errno, text) = far.refused();
    assert_eq!(errno, libc::ENXIO);
    assert!(text.contains("the file is shorter"), "{text}");
    far.point.offset = u64::MAX;
    assert_eq!(far.refused().0, libc::ENXIO);
}

/// The example of the paper: a core dump at a value of an argument.
fn core_dump() {
    use std::os::unix::process::ExitStatusExt;

    let path = path();
    program(
        &path,
        &[
            Insn::register(Op::PushR, Register::Di),
            Insn::push(20),
            Insn::new(Op::Sub),
            Insn::with(Op::Jz, 5),
            Insn::new(Op::Exit),
            Insn::width(Op::Exit, 3),
        ],
    )
    .with_writes()
    .load();
    let status = |arg| Command::new(&path).arg(arg).status().unwrap();
    assert!(status("child=20").success());
    assert_eq!(status("child=21").signal(), Some(libc::SIGABRT));
}
