// SPDX-License-Identifier: GPL-2.0

//! Programs under load on all CPUs, while other programs are loaded and removed. The kernel's log
//! says if it has taken harm: see run_vm().

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::Control;
use crate::control::Keys;
use crate::control::number;
use crate::control::state;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("storm.within_itself", within_itself),
    ("storm.interrupts", interrupts),
    ("storm.nmi", nmi),
    ("storm.forks", forks),
    ("storm.endless", endless),
    ("storm.everything", everything),
    ("storm.unload", unload),
];

/// All of `n` where storms are long.
fn rounds(n: u32) -> u32 {
    match std::env::var("FERROTRACE_STORM").as_deref() {
        Ok("short") => n.div_ceil(5),
        _ => n,
    }
}

/// Calls the probed function on four CPUs while `f` runs.
fn under_load(f: impl FnOnce()) {
    let work = || {
        call(100);
        // So that grace periods end, which removing probes and modules waits for.
        std::thread::sleep(Duration::from_micros(500));
    };
    beside(work, f);
}

/// Does `work` again and again on four CPUs while `f` runs.
fn beside(work: impl Fn() + Sync, f: impl FnOnce()) {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    work();
                }
            });
        }
        // Also if `f` panics: the scope waits for the threads.
        let _over = Over(&is_over);
        f();
    });
}

/// Probes code that programs use themselves: other callers hit the point, and a hit inside a
/// program is missed.
fn within_itself() {
    let reading = in_this_process(&[
        Insn::register(Op::PushR, Register::Sp),
        // Of four bytes, which a function that can be probed reads.
        Insn::width(Op::PushMem, 4),
        Insn::with(Op::IncLv, 0),
        Insn::new(Op::Exit),
    ]);
    Program::new(&reading).load();
    let mut inner = Program::new(&[
        Insn::register(Op::PushR, Register::Sp),
        Insn::width(Op::PushMem, 8),
        Insn::new(Op::Exit),
    ]);
    inner.name = "inner";
    inner.symbol = "copy_from_kernel_nofault_allowed";
    inner.load();
    let mut logging = Program::new(&in_this_process(&[
        Insn::new(Op::PushTime),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ]));
    logging.name = "logging";
    logging.load();
    call(1000);
    let state = state();
    assert_eq!(state.locals[0][0], 1000);
    let inner = &state.points[1];
    assert!(number(inner, "missed") >= 1000, "{inner:?}");
    take_records();
}

fn interrupts() {
    let mut program = Program::new(&[
        Insn::with(Op::IncLv, 0),
        Insn::register(Op::PushR, Register::Sp),
        Insn::push(64),
        Insn::new(Op::Xchg),
        Insn::new(Op::LogMrf),
        Insn::new(Op::Exit),
    ]);
    program.symbol = "tick_nohz_handler";
    program.load();
    under_load(|| std::thread::sleep(Duration::from_secs(1)));
    let state = state();
    assert!(state.locals[0][0] > 10, "{state:?}");
    assert_eq!(state.number("faults"), 0);
    take_records();
}

/// Programs that run in NMIs, which interrupt others that run, do as little harm.
fn nmi() {
    let argument = Insn::register(Op::PushR, Register::Sp);
    let exit = Insn::new(Op::Exit);
    let logs = [Insn::push(64), argument, Insn::new(Op::LogMrf), exit];
    let looks = [
        Insn::push(0xffff_8000_0000_0000),
        Insn::width(Op::PushMem, 8),
        exit,
    ];
    // Something has to be watched all the time, or nothing.
    let word = Box::new(0u64);
    let arms = [
        Insn::push(&raw const *word as u64),
        Insn::with(Op::Arm, 9),
        Insn::with(Op::Disarm, 9),
        exit,
    ];
    let counts = [Insn::with(Op::IncLv, 0), exit];
    let endless = [Insn::with(Op::IncLv, 0), Insn::with(Op::Jmp, 0)];
    let code = |name| match name {
        "logs" | "klog" => &logs[..],
        "looks" => &looks,
        "arms" => &arms,
        "endless" => &endless,
        _ => &counts,
    };
    let names = ["logs", "klog", "looks", "arms", "endless", "counts"];
    for name in names {
        let mut program = Program::new(code(name));
        program.name = name;
        // For each CPU except the asking one, unless it is idle.
        program.symbol = "show_regs";
        if name == "klog" {
            program.set.target = Target::Klog;
        }
        let own = PointSource {
            point: program.point,
            symbol: program.symbol,
            code: &program.code,
        };
        let watched = PointSource {
            point: Point {
                kind: PointKind::WatchWrite,
                watch_len: 8,
                is_later: true,
                minor: 9,
                ..Point::new(1)
            },
            symbol: "",
            code: &counts,
        };
        let points = match name {
            "arms" => &[own, watched][..],
            _ => &[own],
        };
        Control::open().write(&program.bytes_of(points)).unwrap();
    }
    // The program that is interrupted.
    let mut busy = Program::new(&[&looks[..2], &logs, &[exit]].concat());
    busy.name = "busy";
    busy.load();
    let is_in_nmi = |point: &&Keys| point["place"] == "show_regs+0x0";
    let has_run = |point: &Keys| number(point, "runs") >= rounds(25).into();
    let work = || {
        call(10);
        // Hits within a program's are missed.
        (0..10000).for_each(|_| std::hint::spin_loop());
    };
    // Idle CPUs do not execute that code.
    beside(work, || {
        for _ in 0..500 {
            std::fs::write("/proc/sysrq-trigger", "l").unwrap();
            take_records();
            std::thread::sleep(Duration::from_millis(20));
            if state().points.iter().filter(is_in_nmi).all(has_run) {
                break;
            }
        }
    });
    let state = state();
    let points = state.points.iter().filter(is_in_nmi).collect::<Vec<_>>();
    assert_eq!(points.len(), names.len());
    assert!(points.into_iter().all(has_run), "{:?}", state.points);
}

/// Starts and ends processes all the time at probed code, in user space and in the kernel, while
/// programs are loaded and removed.
fn forks() {
    let path = crate::user::path();
    let user = crate::user::program(
        &path,
        &[
            Insn::with(Op::IncLv, 0),
            Insn::register(Op::PushR, Register::Sp),
            Insn::width(Op::PushMem, 8),
            Insn::with(Op::Log, 1),
            Insn::new(Op::Exit),
        ],
    );
    let mut kernel = Program::new(&[
        Insn::with(Op::IncLv, 0),
        Insn::register(Op::PushU, Register::Sp),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ]);
    kernel.symbol = "kernel_clone";
    let is_over = AtomicBool::new(false);
    let forked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    // SAFETY: The child calls a function that does nothing, and makes system calls.
                    match unsafe { libc::fork() } {
                        0 => {
                            crate::user::child(5);
                            // SAFETY: It ends this process.
                            unsafe { libc::_exit(0) }
                        }
                        child => {
                            let mut status = 0;
                            // SAFETY: The status is a variable.
                            unsafe { libc::waitpid(child, &mut status, 0) };
                            assert_eq!(status, 0);
                        }
                    }
                    forked.fetch_add(1, Relaxed);
                }
            });
        }
        for round in 0..rounds(30) {
            let control = Control::open();
            control.write(&user.bytes()).unwrap();
            control.write(&kernel.bytes()).unwrap();
            let before = forked.load(Relaxed);
            while forked.load(Relaxed) < before + 8 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let state = control.state();
            for point in &state.points {
                assert!(number(point, "hits") >= 1, "{round}: {point:?}");
            }
            // Threads of the kernel have no registers of user space.
            assert_eq!(state.number("faults"), 0, "{round}");
            control.write(b"remove *").unwrap();
            take_records();
        }
        is_over.store(true, Relaxed);
    });
}

/// Programs that would not end, that log too much, and that look at everything, do no harm.
fn endless() {
    let shortest = |calls| {
        let time = |_| {
            let start = Instant::now();
            call(calls);
            start.elapsed()
        };
        (0..5).map(time).min().unwrap()
    };
    // Relative to the speed of this machine.
    let most = 4 * shortest(50_000);
    let load = |name, code: &[Insn]| {
        let mut program = Program::new(code);
        program.name = name;
        program.point.max_hits = 40;
        program.header.jmpmax = JUMPS_MAX;
        program.header.logmax = LOG_MAX;
        program.load();
        // Nothing else runs on that CPU for so long. The others that are loaded run as well.
        let time = shortest(1);
        assert!(time < most, "{name}: {time:?} of {most:?}");
    };
    // Many short entries, and looking at all of them again and again.
    let empty = [Insn::push(0), Insn::push(0), Insn::new(Op::LogMrf)];
    let walk = [Insn::new(Op::PushLp), Insn::new(Op::PopLp)];
    load(
        "walks",
        &[
            empty.repeat(1000),
            walk.repeat(500),
            vec![Insn::with(Op::Jmp, 0)],
        ]
        .concat(),
    );
    for (name, op) in [("no text", Op::LogStr), ("no memory", Op::LogMrf)] {
        load(
            name,
            &[
                Insn::with(Op::Sx, 0),
                Insn::push(0),
                Insn::new(Op::PopLp),
                Insn::push(4000),
                Insn::push(0xffff_8000_0000_0000),
                Insn::new(op),
                Insn::new(Op::Exit),
            ],
        );
    }
    load(
        "system registers",
        &[
            Insn::register(Op::PushR, Register::Dr7),
            Insn::new(Op::Pop),
            Insn::with(Op::Jmp, 0),
        ],
    );
    load("jumps", &[Insn::with(Op::IncLv, 0), Insn::with(Op::Jmp, 0)]);
    load("calls", &[Insn::with(Op::Call, 0), Insn::new(Op::Exit)]);
    load(
        "logs",
        &[
            Insn::push(4000),
            Insn::register(Op::PushR, Register::Sp),
            Insn::new(Op::LogMrf),
            Insn::with(Op::Jmp, 0),
        ],
    );
    load(
        "looks",
        &[
            Insn::with(Op::PushLv, 0),
            Insn::push(4096),
            Insn::new(Op::Add),
            Insn::with(Op::MoveLv, 0),
            Insn::push(20),
            Insn::new(Op::Xchg),
            Insn::new(Op::VfyR),
            Insn::new(Op::Pop),
            Insn::with(Op::Jmp, 0),
        ],
    );
    let start = Instant::now();
    under_load(|| std::thread::sleep(Duration::from_secs(2)));
    let state = state();
    for point in &state.points {
        assert!(number(point, "faults") >= 1, "{point:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    take_records();
}

/// Programs of all kinds are loaded, replaced and removed under load.
fn everything() {
    let codes = [
        in_this_process(&[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)]),
        vec![Insn::with(Op::IncGv, 0), Insn::new(Op::Exit)],
        vec![
            Insn::push(32),
            Insn::register(Op::PushR, Register::Sp),
            Insn::new(Op::LogMrf),
            Insn::new(Op::Exit),
        ],
        vec![
            Insn::push(64),
            Insn::new(Op::Malloc),
            Insn::push(0),
            Insn::width(Op::PushH, 8),
            Insn::with(Op::Sx, 6),
            Insn::with(Op::Rx, 1),
            Insn::new(Op::PushX),
            Insn::with(Op::Log, 3),
            Insn::new(Op::Exit),
        ],
        vec![Insn::new(Op::Rem)],
    ];
    let behind = behind_entry();
    under_load(|| {
        let control = Control::open();
        for round in 0..rounds(15) {
            for (n, code) in codes.iter().enumerate() {
                let name = format!("program {n}");
                let mut program = Program::new(code);
                program.point.heap_size = 128;
                program.point.offset = if round % 2 == 0 { 0 } else { behind };
                program.set.flags = REPLACE;
                let program = Program {
                    name: &name,
                    ..program
                };
                control.write(&program.bytes()).unwrap();
            }
            take_records();
            if round % 3 == 0 {
                control.write(b"remove *").unwrap();
            }
        }
    });
}

/// Unloads the module with its programs while they run.
fn unload() {
    let kdir = std::env::var("FERROTRACE_KDIR").unwrap();
    let module = format!("{kdir}/kernel/ferrotrace/rust_dprobes.ko");
    under_load(|| {
        for _ in 0..rounds(100) {
            for (name, code) in [
                (
                    "counts",
                    vec![Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)],
                ),
                (
                    "logs",
                    vec![Insn::push(1), Insn::with(Op::Log, 1), Insn::new(Op::Exit)],
                ),
            ] {
                let mut program = Program::new(&code);
                program.name = name;
                program.load();
            }
            execute("rmmod", "rust_dprobes");
            execute("insmod", &module);
        }
    });
    assert!(state().programs.is_empty());
}
