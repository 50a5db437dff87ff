// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading: all or nothing, and why not.

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::Control;
use crate::control::Keys;
use crate::control::state;
use crate::module;
use crate::module::Loaded;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("loading.refused", refused),
    ("loading.no_symbol", no_symbol),
    ("loading.nothing_is_left", nothing_is_left),
    ("loading.opcode", opcode),
    ("loading.opcode_beside", opcode_beside),
    ("loading.twice", twice),
    ("loading.merge", merge),
    ("loading.merge_differs", merge_differs),
    ("loading.symbol_of_module", symbol_of_module),
    ("loading.commands", commands),
    ("loading.reset_loses_nothing", reset_loses_nothing),
    ("loading.random_bytes", random_bytes),
    ("loading.module", in_module),
];

fn counting() -> Program<'static> {
    Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::new(Op::Exit),
    ]))
}

fn refused() {
    let program = Program::new(&[Insn::new(Op::Pop), Insn::new(Op::Exit)]);
    let (errno, text) = program.refused();
    assert_eq!(errno, libc::EINVAL);
    assert!(
        text.starts_with("program 0 point 0 instruction 0: "),
        "{text}"
    );
    assert!(state().programs.is_empty());
}

fn no_symbol() {
    let program = Program {
        symbol: "there_is_no_such_function",
        ..counting()
    };
    let (errno, text) = program.refused();
    assert_eq!(errno, libc::ENOENT);
    assert!(text.contains("there_is_no_such_function+0x0"), "{text}");
    let program = Program {
        symbol: SYMBOL,
        point: Point {
            offset: 1,
            ..counting().point
        },
        ..counting()
    };
    assert_eq!(program.refused().0, libc::EILSEQ);
}

/// The second program of a set cannot be loaded: neither is the first.
fn nothing_is_left() {
    let code = [Insn::with(Op::IncGv, 0), Insn::new(Op::Exit)];
    let header = Header {
        globals: 1,
        ..Header::new(ModuleKind::Kernel)
    };
    let point = |symbol| PointSource {
        point: Point::new(0),
        symbol,
        code: &code,
    };
    let points = [point(SYMBOL), point(SYMBOL)];
    let bad = [point("there_is_no_such_function")];
    let program = |name, points| ProgramSource {
        header,
        name,
        points,
    };
    let programs = [program("first", &points[..]), program("second", &bad)];
    let mut bytes = Vec::new();
    encode(&mut bytes, SetHeader::default(), &programs).unwrap();
    let control = Control::open();
    let error = control.write(&bytes).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    call(3);
    let state = control.state();
    assert!(state.programs.is_empty() && state.points.is_empty());
    assert_eq!(state.globals[0], 0);
}

fn opcode() {
    let mut program = counting();
    // No function begins with it.
    program.point.opcode = Some(0xf4);
    program.load();
    call(3);
    let first = state();
    assert_eq!(first.points[0]["state"], "mismatch");
    assert_eq!(first.locals[0][0], 0);
    program.set.flags = IGNORE_OPCODES | REPLACE;
    program.load();
    call(3);
    let second = state();
    assert_eq!(second.points[0]["state"], "active");
    assert_eq!(second.locals[0][0], 3);
}

/// Compares the opcode of a second program at a place, as for the first one: with the instruction,
/// not with the breakpoint.
fn opcode_beside() {
    for offset in [0, behind_entry()] {
        let right = first_byte(offset);
        let mut program = counting();
        program.point.offset = offset;
        program.load();
        program.name = "beside";
        for (opcode, state_of_it) in [(0xcc, "mismatch"), (0xf4, "mismatch"), (right, "active")] {
            program.point.opcode = Some(opcode);
            program.set.flags = REPLACE;
            program.load();
            let state = state();
            assert_eq!(
                state.points[1]["state"], state_of_it,
                "{offset} {opcode:#x}"
            );
        }
        crate::control::remove_all();
    }
}

/// Returns the first byte of an instruction of the probed function, as a program sees it without
/// any other probe.
fn first_byte(offset: u64) -> u8 {
    if offset == 0 {
        // The first byte of ftrace's no-op.
        return 0x0f;
    }
    let mut program = counting();
    program.point.offset = offset;
    program.load();
    let address = state().points[0]["address"].clone();
    crate::control::remove_all();
    let address = u64::from_str_radix(&address[2..], 16).unwrap();
    Program::new(&[
        Insn::push(address),
        Insn::width(Op::PushMem, 1),
        Insn::with(Op::PopLv, 0),
        Insn::new(Op::Exit),
    ])
    .load();
    call(1);
    let byte = state().locals[0][0];
    crate::control::remove_all();
    byte.try_into().unwrap()
}

fn twice() {
    let mut program = counting();
    program.load();
    let (errno, text) = program.refused();
    assert_eq!(
        (errno, &text[..]),
        (libc::EEXIST, "vmlinux: is loaded already")
    );
    call(2);
    program.set.flags = REPLACE;
    program.load();
    assert_eq!(state().locals, [[0; 4]]);
    call(3);
    let state = state();
    assert_eq!((state.programs.len(), state.points.len()), (1, 1));
    assert_eq!(state.locals[0][0], 3);
}

fn merge() {
    let mut program = counting();
    program.load();
    program.set.flags = MERGE;
    program.load();
    call(2);
    let state = state();
    assert_eq!((state.programs.len(), state.points.len()), (1, 2));
    assert_eq!(state.locals, [[4, 0, 0, 0]]);
    program.header.locals = 5;
    let (errno, text) = program.refused();
    assert_eq!(errno, libc::EINVAL);
    assert!(text.contains("fewer local variables"), "{text}");
}

/// Checks that the state of a program holds for all its points.
fn merge_differs() {
    let mut program = counting();
    program.load();
    program.set.flags = MERGE;
    let refused = |program: &Program<'_>, why: &str| {
        let (errno, text) = program.refused();
        assert_eq!(errno, libc::EINVAL);
        assert!(text.contains(why), "{text}");
    };
    program.header.kind = ModuleKind::Module;
    refused(&program, "is of another kind");
    program.header.kind = ModuleKind::Kernel;
    program.header.jmpmax = 7;
    refused(&program, "has another jmpmax or logmax");
    program.header.jmpmax = counting().header.jmpmax;
    program.set.target = Target::Klog;
    refused(&program, "has another target");
    program.set.target = Target::Relay;
    refused(&program.with_writes(), "not both have UNSAFE_WRITES");
    assert_eq!(state().points.len(), 1);
}

/// A program of the kernel has none of a module's symbols: it would not go with the module.
fn symbol_of_module() {
    for kind in [PointKind::Breakpoint, PointKind::WatchExecute] {
        for symbol in [
            "ferro_dprobes_register",
            "rust_dprobes:ferro_dprobes_register",
        ] {
            let mut program = Program {
                symbol,
                ..counting()
            };
            program.point.kind = kind;
            assert_eq!(program.refused().0, libc::ENOENT, "{symbol}");
        }
    }
}

fn commands() {
    let control = Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::IncGv, 0),
        Insn::new(Op::Exit),
    ]))
    .load();
    call(2);
    control.write(b"reset vmlinux\n").unwrap();
    let state = control.state();
    assert_eq!((state.locals[0][0], state.globals[0]), (0, 2));
    call(1);
    control.write(b"reset_globals\n").unwrap();
    let state = control.state();
    assert_eq!((state.locals[0][0], state.globals[0]), (1, 0));
    call(1);
    control.write(b"reset *").unwrap();
    assert_eq!(control.state().globals[0], 0);
    for (command, errno) in [
        (&b""[..], Some(libc::EINVAL)),
        (b"nonsense", Some(libc::EINVAL)),
        (b"remove", Some(libc::EINVAL)),
        (b"remove other", Some(libc::ENOENT)),
        (b"reset other", Some(libc::ENOENT)),
        (b"reset_globals now", Some(libc::EINVAL)),
        (b"reset[0] vmlinux", Some(libc::EINVAL)),
        (b"reset[0-x] vmlinux", Some(libc::EINVAL)),
        (b"remove[0-1] vmlinux", Some(libc::EINVAL)),
        (b"\xff\xfe x", Some(libc::EINVAL)),
    ] {
        let result = control.write(command);
        assert_eq!(
            result.err().and_then(|e| e.raw_os_error()),
            errno,
            "{command:?}"
        );
        assert_eq!(control.state().programs.len(), 1);
    }
    control.write(b"remove vmlinux").unwrap();
    assert!(control.state().programs.is_empty());
}

/// Checks that no count is lost while others count: the values that a reset returns and the later
/// ones are the total.
fn reset_loses_nothing() {
    const CALLS: u64 = 30_000;
    let control = Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 1),
        Insn::with(Op::IncGv, 2),
        Insn::new(Op::Exit),
    ]))
    .load();
    let values = |taken: &Keys| -> Vec<u64> {
        let values = taken["values"].split(',').filter(|one| !one.is_empty());
        values.map(|value| value.parse().unwrap()).collect()
    };
    let (mut locals, mut globals, mut rounds) = (0, 0, 0);
    let mut reset = |line: &[u8]| {
        control.write(line).unwrap();
        for taken in control.state().taken {
            let is_local = taken["name"] == "vmlinux";
            assert_eq!(taken["first"], if is_local { "1" } else { "2" });
            let sum = values(&taken).iter().sum::<u64>();
            *(if is_local { &mut locals } else { &mut globals }) += sum;
        }
    };
    let callers = (0..2).map(|_| std::thread::spawn(|| call(CALLS)));
    let callers = callers.collect::<Vec<_>>();
    while callers.iter().any(|caller| !caller.is_finished()) {
        reset(b"reset[1-1] vmlinux");
        reset(b"reset_globals[2-300]");
        rounds += 1;
    }
    for caller in callers {
        caller.join().unwrap();
    }
    reset(b"reset[1-1] vmlinux");
    reset(b"reset_globals[2-300]");
    assert!(rounds > 2);
    assert_eq!((locals, globals), (2 * CALLS, 2 * CALLS));
    control.write(b"reset *").unwrap();
    let taken = control.state().taken;
    let lens = taken.iter().map(|taken| values(taken).len());
    assert_eq!(lens.collect::<Vec<_>>(), [4, 256]);
    // Not of the other indexes.
    call(3);
    control.write(b"reset[0-0] vmlinux").unwrap();
    let state = control.state();
    assert_eq!(values(&state.taken[0]), [0]);
    assert_eq!(state.locals[0][1], 3);
}

/// Parts of a set, and sets with other bytes in them, are refused or do no harm.
fn random_bytes() {
    let bytes = counting().bytes();
    let control = Control::open();
    for len in 4..bytes.len() {
        assert!(control.write(&bytes[..len]).is_err());
    }
    let mut random = 1u64;
    for _ in 0..2000 {
        let mut other = bytes.clone();
        for _ in 0..3 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let at = 4 + (random >> 33) as usize % (bytes.len() - 4);
            // Not the flags: nothing here shall be written.
            if !(12..16).contains(&at) {
                other[at] = (random >> 20) as u8;
            }
        }
        if control.write(&other).is_ok() {
            call(1);
            control.write(b"remove *").unwrap();
        }
    }
}

/// Loads, unloads and reloads a module with a point.
fn in_module() {
    module::at_init().load();
    assert_eq!(state().points[0]["state"], "waiting");
    for n in 1..3 {
        let module = Loaded::new();
        assert_eq!(state().locals[0][0], n);
        drop(module);
        assert_eq!(state().points[0]["state"], "waiting");
    }
}
