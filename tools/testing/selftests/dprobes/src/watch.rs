// SPDX-License-Identifier: GPL-2.0

//! Watchpoints.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::state;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("watch.writes", writes),
    ("watch.accesses", accesses),
    ("watch.reads_itself", reads_itself),
    ("watch.misses", misses),
    ("watch.kernel_variable", kernel_variable),
    ("watch.all_registers", all_registers),
    ("watch.later_cpus", later_cpus),
    ("watch.ports", ports),
];

static WORD: AtomicU64 = AtomicU64::new(0);
static WORDS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn watch(kind: PointKind, address: u64, code: &[Insn]) -> Program<'static> {
    Program {
        name: "watched",
        symbol: "",
        header: Header {
            locals: 4,
            ..Header::new(ModuleKind::User)
        },
        point: Point {
            kind,
            watch_len: 8,
            is_absolute: true,
            offset: address,
            ..Point::new(1)
        },
        ..Program::new(code)
    }
}

/// Of a word of this program.
pub fn of_a_word(code: &[Insn]) -> Program<'static> {
    watch(PointKind::WatchWrite, WORD.as_ptr() as u64, code)
}

/// Logs the writer of a variable, and the value written.
fn writes() {
    take_records();
    let address = WORD.as_ptr() as u64;
    watch(
        PointKind::WatchWrite,
        address,
        &in_this_process(&[
            Insn::with(Op::IncLv, 0),
            Insn::push(address),
            Insn::width(Op::PushMem, 8),
            Insn::with(Op::Log, 1),
            Insn::new(Op::Exit),
        ]),
    )
    .load();
    for n in 1..4 {
        WORD.store(n, Relaxed);
        std::hint::black_box(WORD.load(Relaxed));
    }
    let state = state();
    assert_eq!(state.locals[0][0], 3);
    assert_eq!(state.points[0]["kind"], "w");
    assert_eq!(words_of(&take_records()), [1, 2, 3]);
}

fn accesses() {
    let address = WORD.as_ptr() as u64;
    let code = in_this_process(&[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)]);
    watch(PointKind::WatchAccess, address, &code).load();
    WORD.store(5, Relaxed);
    std::hint::black_box(WORD.load(Relaxed));
    assert_eq!(state().locals[0][0], 2);
}

/// Checks a program that reads the variable it watches for reads: its own hit is missed, and uses
/// up none of its permitted runs.
fn reads_itself() {
    let address = WORD.as_ptr() as u64;
    let code = in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::push(address),
        Insn::width(Op::PushMem, 8),
        Insn::with(Op::PopLv, 1),
        Insn::new(Op::Exit),
    ]);
    let mut program = watch(PointKind::WatchAccess, address, &code);
    program.point.max_hits = 4;
    program.load();
    (1..=4).for_each(|n| WORD.store(n, Relaxed));
    let after_four = state();
    WORD.store(5, Relaxed);
    let after_five = state();
    for state in [after_four, after_five] {
        assert_eq!(state.locals[0][..2], [4, 4]);
        assert_eq!(state.number("runs"), 4);
        assert_eq!(state.points[0]["state"], "disabled");
    }
}

/// Hits that are missed do not use up the runs that a point may have.
fn misses() {
    let address = WORD.as_ptr() as u64;
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let line = symbols
        .lines()
        .find(|line| line.ends_with(" panic_timeout"));
    let variable = u64::from_str_radix(&line.unwrap()[..16], 16).unwrap();
    let code = in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::push(variable),
        Insn::width(Op::PushMem, 4),
        Insn::with(Op::PopLv, 1),
        Insn::new(Op::Exit),
    ]);
    watch(PointKind::WatchWrite, address, &code).load();
    // A function that reads four bytes for that program.
    let mut inner = Program::new(&[Insn::new(Op::Nop), Insn::new(Op::Exit)]);
    inner.symbol = "copy_from_kernel_nofault_allowed";
    inner.point.max_hits = 10;
    inner.load();
    (0..30).for_each(|n| WORD.store(n, Relaxed));
    let state = state();
    assert_eq!(state.locals[0][0], 30);
    let inner = &state.points[1];
    assert!(crate::control::number(inner, "missed") >= 20, "{inner:?}");
    assert_eq!(inner["state"], "active", "{inner:?}");
}

/// A variable of the kernel that a sysctl writes.
fn kernel_variable() {
    Program {
        name: "vmlinux",
        symbol: "panic_timeout",
        point: Point {
            kind: PointKind::WatchWrite,
            watch_len: 4,
            ..Point::new(1)
        },
        ..Program::new(&[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)])
    }
    .load();
    let path = "/proc/sys/kernel/panic";
    let before = std::fs::read(path).unwrap();
    std::fs::write(path, "5\n").unwrap();
    let count = state().locals[0][0];
    std::fs::write(path, before).unwrap();
    assert!(count >= 1, "{count}");
}

/// There are four debug registers. A fifth watchpoint is refused, and leaves the others alone.
fn all_registers() {
    let mut loaded = 0;
    for (n, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let mut program = watch(
            PointKind::WatchWrite,
            WORDS[n].as_ptr() as u64,
            &[Insn::with(Op::IncGv, 0), Insn::new(Op::Exit)],
        );
        program.name = name;
        program.header.globals = 1;
        if n < 4 {
            program.load();
            loaded += 1;
        } else {
            let (errno, text) = program.refused();
            assert_eq!(errno, libc::ENOSPC);
            assert!(text.contains("no debug register is free"), "{text}");
        }
    }
    WORDS.iter().for_each(|word| word.store(1, Relaxed));
    let state = state();
    assert_eq!((state.programs.len(), loaded), (4, 4));
    assert_eq!(state.globals[0], 4);
}

/// Takes a CPU out of service, or into it.
fn set_online(cpu: usize, is_online: bool) {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    std::fs::write(path, u8::from(is_online).to_string()).unwrap();
}

/// Checks that CPUs that go offline and online again, and those that are first online after the
/// watchpoint was armed, watch as well. Debug registers of offline CPUs are not lost.
fn later_cpus() {
    const CPU: usize = 1;
    let address = WORD.as_ptr() as u64;
    let code = in_this_process(&[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)]);
    let counts = |cpu| {
        let before = state().locals[0][0];
        on_cpu(cpu, || WORD.store(before, Relaxed));
        state().locals[0][0] - before
    };
    watch(PointKind::WatchWrite, address, &code).load();
    assert_eq!((counts(0), counts(CPU)), (1, 1));
    set_online(CPU, false);
    assert_eq!(counts(0), 1);
    set_online(CPU, true);
    assert_eq!((counts(0), counts(CPU)), (1, 1), "it has come back");
    crate::control::remove_all();
    set_online(CPU, false);
    watch(PointKind::WatchWrite, address, &code).load();
    set_online(CPU, true);
    assert_eq!((counts(0), counts(CPU)), (1, 1), "it has come later");
    set_online(CPU, false);
    crate::control::remove_all();
    set_online(CPU, true);
    all_registers();
}

fn ports() {
    let code = [Insn::new(Op::Exit)];
    let (errno, _) = watch(PointKind::WatchIo, 0x80, &code).refused();
    assert_eq!(errno, libc::EOPNOTSUPP);
}
