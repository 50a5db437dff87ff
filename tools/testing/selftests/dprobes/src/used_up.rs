// SPDX-License-Identifier: GPL-2.0

//! Tests of points with a program that never runs again: they remove their breakpoints.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::Control;
use crate::control::State;
use crate::control::number;
use crate::control::state;
use crate::module;
use crate::module::Loaded;
use crate::testlib::*;
use crate::user;

pub const CASES: &[Case] = &[
    ("used_up.kernel", kernel),
    ("used_up.removed", removed),
    ("used_up.user", in_user),
    ("used_up.watchpoints", watchpoints),
    ("used_up.module", in_module),
    ("used_up.many", many),
    ("used_up.meanwhile", meanwhile),
];

/// Returns true if no breakpoint of the kernel is left.
fn all_gone(state: &State) -> bool {
    state.points.iter().all(|point| point["address"] == "0x0")
}

/// Waits until no breakpoint of the kernel is left, and no call hits one: the engine may remove it
/// after that.
fn no_more_hits() -> State {
    let mut before = comes(all_gone);
    loop {
        call(1);
        let after = comes(all_gone);
        if after.number("hits") == before.number("hits") {
            return after;
        }
        before = after;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

const COUNTS: [Insn; 2] = [Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)];
/// Does not only count.
const PUSHES: [Insn; 4] = [
    Insn::with(Op::IncLv, 0),
    Insn::push(1),
    Insn::new(Op::Pop),
    Insn::new(Op::Exit),
];

fn kernel() {
    for code in [&COUNTS[..], &PUSHES] {
        let mut program = Program::new(code);
        program.point.pass_count = 2;
        program.point.max_hits = 3;
        program.load();
        call(4);
        assert_ne!(state().points[0]["address"], "0x0");
        assert_eq!(state().points[0]["state"], "active");
        call(1);
        let before = no_more_hits();
        call(10);
        let after = state();
        assert_eq!(after.number("hits"), before.number("hits"));
        assert_eq!((after.number("runs"), after.locals[0][0]), (3, 3));
        assert_eq!(after.points[0]["state"], "disabled");
        // A reset does not change that.
        Control::open().write(b"reset *").unwrap();
        call(1);
        assert_eq!(state().locals[0][0], 0);
        crate::control::remove_all();
    }
}

fn removed() {
    Program::new(&[Insn::with(Op::IncLv, 0), Insn::new(Op::Rem)]).load();
    call(1);
    let before = no_more_hits();
    call(10);
    let after = state();
    assert_eq!(after.number("hits"), before.number("hits"));
    assert_eq!(after.locals[0][0], 1);
    assert_eq!(after.points[0]["state"], "removed");
}

fn in_user() {
    let path = user::path();
    let mut program = user::program(&path, &PUSHES);
    program.point.max_hits = 2;
    program.load();
    let hit = || user::target(1, std::ptr::null());
    hit();
    hit();
    // Some points are hit until the breakpoint is removed.
    let start = Instant::now();
    let mut last = 0;
    loop {
        hit();
        let hits = state().number("hits");
        if hits == last {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "still hit");
        last = hits;
        std::thread::sleep(Duration::from_millis(5));
    }
    let state = state();
    assert_eq!((state.number("runs"), state.locals[0][0]), (2, 2));
    assert_eq!(state.points[0]["state"], "disabled");
}

static WORDS: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

fn watch(n: usize, name: &'static str) -> Program<'static> {
    Program {
        name,
        symbol: "",
        point: Point {
            kind: PointKind::WatchWrite,
            watch_len: 8,
            is_absolute: true,
            offset: WORDS[n].as_ptr() as u64,
            max_hits: 1,
            ..Point::new(1)
        },
        ..Program::new(&COUNTS)
    }
}

/// The four debug registers are free for others as soon as their points have run.
fn watchpoints() {
    for (n, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        watch(n, name).load();
    }
    assert_eq!(watch(4, "e").refused().0, libc::ENOSPC);
    WORDS[..4].iter().for_each(|word| word.store(1, Relaxed));
    let control = Control::open();
    for (n, name) in ["e", "f", "g", "h"].into_iter().enumerate() {
        let bytes = watch(4 + n, name).bytes();
        let start = Instant::now();
        while control.write(&bytes).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "{name}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    WORDS.iter().for_each(|word| word.store(2, Relaxed));
    let state = state();
    assert_eq!(state.locals.len(), 8);
    for (point, locals) in state.points.iter().zip(&state.locals) {
        assert_eq!((number(point, "runs"), locals[0]), (1, 1));
        assert_eq!(point["state"], "disabled");
    }
}

/// Uses up a point in a module, which is then unloaded and loaded again.
fn in_module() {
    let mut program = module::at_init();
    program.point.max_hits = 1;
    program.load();
    for _ in 0..2 {
        let module = Loaded::new();
        let state = comes(all_gone);
        assert_eq!(state.points[0]["state"], "disabled");
        assert_eq!((state.number("hits"), state.locals[0][0]), (1, 1));
        drop(module);
    }
}

/// A program with all its points at one instruction.
fn many_points(count: usize, max_hits: u64) -> Vec<u8> {
    let point = PointSource {
        point: Point {
            max_hits,
            ..Point::new(1)
        },
        symbol: SYMBOL,
        code: &PUSHES,
    };
    let program = ProgramSource {
        header: Header {
            locals: 1,
            ..Header::new(ModuleKind::Kernel)
        },
        name: "vmlinux",
        points: &vec![point; count],
    };
    let mut bytes = Vec::new();
    let set = SetHeader {
        flags: REPLACE,
        ..SetHeader::default()
    };
    encode(&mut bytes, set, &[program]).unwrap();
    bytes
}

fn many() {
    const MANY: usize = 100;
    Control::open().write(&many_points(MANY, 1)).unwrap();
    call(1);
    let state = comes(all_gone);
    assert_eq!(state.points.len(), MANY);
    assert_eq!(state.locals[0][0], MANY as u64);
}

/// Replaces and removes programs under load, while their points remove their breakpoints.
fn meanwhile() {
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    call(50);
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
        }
        let result = std::panic::catch_unwind(|| {
            let control = Control::open();
            for round in 0..40 {
                control.write(&many_points(20, round % 7)).unwrap();
                if round % 3 == 0 {
                    control.write(b"remove *").unwrap();
                }
            }
        });
        is_over.store(true, Relaxed);
        result.unwrap();
    });
    crate::control::remove_all();
    assert!(state().programs.is_empty());
}
