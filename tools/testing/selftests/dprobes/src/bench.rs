// SPDX-License-Identifier: GPL-2.0

//! What a hit costs: "dprobes_test bench", in a guest where a nanosecond is an instruction. Prints a figure a line.

use std::process::Command;
use std::time::Instant;

use ferro_core::rpn::*;

use crate::control::remove_all;
use crate::control::state;
use crate::kit::*;

const CALLS: u64 = 500;

/// Nanoseconds of a call, apart from what the call costs without any probe: the least of some, as the kernel also has other work.
fn per_call(bare: f64) -> f64 {
    call(CALLS / 10);
    let once = |_| {
        let start = Instant::now();
        call(CALLS);
        start.elapsed().as_nanos() as f64 / CALLS as f64 - bare
    };
    (0..5).map(once).fold(f64::INFINITY, f64::min)
}

/// With a probe that does nothing.
fn empty(offset: u64, post: bool, bare: f64) -> f64 {
    let module = std::env::var("DPROBES_BENCH").expect("DPROBES_BENCH names the module");
    let run = |command: &mut Command| assert!(command.status().unwrap().success());
    let parameters = [
        format!("offset={offset}"),
        format!("post={}", u8::from(post)),
    ];
    run(Command::new("insmod").arg(module).args(parameters));
    let cost = per_call(bare);
    run(Command::new("rmmod").arg("dprobes_bench"));
    cost
}

fn program(offset: u64, code: &[Insn], bare: f64) -> f64 {
    remove_all();
    let mut program = Program::new(code);
    program.point.offset = offset;
    program.load();
    let cost = per_call(bare);
    assert_eq!(state().number("faults"), 0);
    take_records();
    remove_all();
    cost
}

pub fn run() {
    let exit = Insn::new(Op::Exit);
    let bare = per_call(0.0);
    let show = |name: &str, figure: f64| println!("{name} {figure:.1}");
    show("bare", bare);
    for (place, offset) in [("entry", 0), ("inside", 5)] {
        let run = |code: &[Insn]| program(offset, code, bare);
        let pre = empty(offset, false, bare);
        let post = empty(offset, true, bare);
        show(&format!("{place}_empty"), pre);
        show(&format!("{place}_empty_post"), post);
        let nothing = run(&[exit]);
        show(&format!("{place}_exit"), nothing - pre);
        let inc = run(&[Insn::with(Op::IncLv, 1), exit]);
        show(&format!("{place}_inc"), inc - pre);
        let log = run(&[
            Insn::push(16),
            Insn::register(Op::PushR, Register::Sp),
            Insn::new(Op::LogMrf),
            exit,
        ]);
        show(&format!("{place}_log_16"), log - post);
        show(&format!("{place}_log_16_in_all"), log);
        let words = run(&[
            Insn::register(Op::PushR, Register::Di),
            Insn::register(Op::PushR, Register::Si),
            Insn::with(Op::Log, 2),
            exit,
        ]);
        show(&format!("{place}_log_two_words"), words - post);
    }
    let start = [Insn::push(3)];
    let of = |commands: &[Insn]| {
        let code = [&start[..], &commands.repeat(50), &[exit]].concat();
        program(0, &code, bare)
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
        show(&format!("command_{name}"), figure);
    }
}
