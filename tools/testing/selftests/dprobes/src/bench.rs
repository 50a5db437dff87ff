// SPDX-License-Identifier: GPL-2.0

//! Costs of a hit: "dprobes_test bench", in a guest where a nanosecond is an instruction. Prints
//! one figure per line.

use std::process::Command;
use std::time::Instant;

use ferro_dprobes_core::*;

use crate::bpf::Attached;
use crate::bpf::Job;
use crate::control::remove_all;
use crate::control::state;
use crate::testlib::*;

const CALLS: u64 = 500;

/// Nanoseconds of a call, less the cost of the call without a probe. Takes the minimum of several
/// runs, as the kernel also has other work.
fn per_call(bare: f64) -> f64 {
    call(CALLS / 10);
    let once = |_| {
        let start = Instant::now();
        call(CALLS);
        start.elapsed().as_nanos() as f64 / CALLS as f64 - bare
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

const SYSCTL: &str = "/proc/sys/debug/kprobes-optimization";

/// Place of a measurement.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    offset: u64,
    /// True if the probe is a jump and not a breakpoint.
    jumps: bool,
}

const ENTRY: Place = Place {
    name: "entry",
    offset: 0,
    jumps: false,
};

impl Place {
    /// Waits until a registered point is a jump, if it is to be one.
    fn settle(&self) {
        let is_jump = || {
            let list = std::fs::read_to_string("/sys/kernel/debug/kprobes/list").unwrap();
            list.lines().all(|line| line.contains("[OPTIMIZED]"))
        };
        if !self.jumps {
            return;
        }
        for _ in 0..1000 {
            if is_jump() {
                // The state announces the jump before it is placed: an RCU-tasks grace period lies
                // between.
                return std::thread::sleep(std::time::Duration::from_secs(3));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it does not become a jump");
    }
}

/// With a probe that does nothing.
fn empty(place: Place, post: bool, bare: f64) -> f64 {
    let module = std::env::var("DPROBES_BENCH").expect("DPROBES_BENCH names the module");
    let run = |command: &mut Command| assert!(command.status().unwrap().success());
    let parameters = [
        format!("offset={}", place.offset),
        format!("post={}", u8::from(post)),
    ];
    run(Command::new("insmod").arg(module).args(parameters));
    place.settle();
    let cost = per_call(bare);
    run(Command::new("rmmod").arg("dprobes_bench"));
    cost
}

fn program(place: Place, code: &[Insn], bare: f64) -> f64 {
    remove_all();
    let mut program = Program::new(code);
    program.header.locals = 256;
    program.point.offset = place.offset;
    program.load();
    place.settle();
    let cost = per_call(bare);
    assert_eq!(state().number("faults"), 0);
    take_records();
    remove_all();
    cost
}

/// Counts in a variable for each last byte of a process's number.
fn count_by_process() -> [Insn; 5] {
    [
        Insn::new(Op::PushPid),
        Insn::push(255),
        Insn::new(Op::And),
        Insn::from_stack(Op::IncLv),
        Insn::new(Op::Exit),
    ]
}

/// All of a hit with a BPF program, where the kernel has that.
fn with_bpf(place: Place, bare: f64) {
    if !std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        return;
    }
    let process = std::process::id();
    for (name, job, key) in [
        ("empty", Job::Nothing, None),
        ("count_in_hash", Job::CountInHash, Some(process)),
        ("count_in_array", Job::CountInArray, Some(process % 256)),
        ("ring_buffer", Job::RingBuffer, None),
        ("ring_buffer_timed", Job::RingBufferTimed, None),
        ("perf_buffer", Job::PerfBuffer, None),
    ] {
        let attached = Attached::new(job, place.offset);
        let cost = per_call(bare);
        if let Some(key) = key {
            // Of all calls that were measured, and those before them.
            let least = 5 * CALLS;
            assert!(attached.counted(key) >= least, "{name} has not counted");
        }
        println!("{}_bpf_{name} {cost:.1}", place.name);
    }
}

pub fn run() {
    // Breakpoints, unless stated otherwise.
    std::fs::write(SYSCTL, "0").unwrap();
    let bare = per_call(0.0);
    println!("bare {bare:.1}");
    let inside = Place {
        name: "inside",
        offset: behind_entry(),
        ..ENTRY
    };
    for place in [ENTRY, inside] {
        with_bpf(place, bare);
        at(place, bare);
    }
    let waiting = Place {
        name: "waiting",
        offset: offset_that_waits(),
        ..ENTRY
    };
    at(waiting, bare);
    // Mainline's engine never replaces a breakpoint with a post handler by a jump.
    if !std::path::Path::new("/sys/kernel/debug/kprobes/refused").exists() {
        return commands(bare);
    }
    std::fs::write(SYSCTL, "1").unwrap();
    let jump = Place {
        name: "jump",
        jumps: true,
        ..inside
    };
    at(jump, bare);
    let waiting_jump = Place {
        name: "waiting_jump",
        jumps: true,
        ..waiting
    };
    at(waiting_jump, bare);
    std::fs::write(SYSCTL, "0").unwrap();
    commands(bare);
}

/// Measures the cost of a hit at a place.
fn at(place: Place, bare: f64) {
    let exit = Insn::new(Op::Exit);
    let run = |code: &[Insn]| program(place, code, bare);
    let show = |name: &str, figure: f64| println!("{}_{name} {figure:.1}", place.name);
    let pre = empty(place, false, bare);
    show("empty", pre);
    show("exit", run(&[exit]) - pre);
    show("inc", run(&[Insn::with(Op::IncLv, 1), exit]) - pre);
    let memory = run(&[
        Insn::push(16),
        Insn::register(Op::PushR, Register::Sp),
        Insn::new(Op::LogMrf),
        exit,
    ]);
    let words = run(&[
        Insn::register(Op::PushR, Register::Di),
        Insn::register(Op::PushR, Register::Si),
        Insn::with(Op::Log, 2),
        exit,
    ]);
    let count = run(&count_by_process());
    for (name, cost) in [
        ("log_16", memory),
        ("log_two_words", words),
        ("count_by_process", count),
    ] {
        show(name, cost - pre);
        show(&format!("{name}_in_all"), cost);
    }
    show("empty_post", empty(place, true, bare));
}

/// Measures the cost of commands.
fn commands(bare: f64) {
    let exit = Insn::new(Op::Exit);
    let start = [Insn::push(3)];
    let of = |commands: &[Insn]| {
        let code = [&start[..], &commands.repeat(50), &[exit]].concat();
        program(ENTRY, &code, bare)
    };
    let nop = of(&[]);
    for (name, commands) in [
        ("push_add", &[Insn::push(2), Insn::new(Op::Add)][..]),
        ("push_xor", &[Insn::push(2), Insn::new(Op::Xor)]),
        ("neg", &[Insn::new(Op::Neg)]),
        ("shl", &[Insn::with(Op::Shl, 1)]),
        ("inc_lv", &[Insn::with(Op::IncLv, 0)]),
        (
            "push_pop_lv",
            &[Insn::with(Op::PushLv, 0), Insn::with(Op::PopLv, 0)],
        ),
    ] {
        let figure = (of(commands) - nop) / 50.0 / commands.len() as f64;
        println!("command_{name} {figure:.1}");
    }
}
