// SPDX-License-Identifier: GPL-2.0

//! Points in the kernel: counting, registers, memory.

use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ferro_dprobes_core::*;
use nix::sys::wait::waitpid;
use nix::unistd::ForkResult;
use nix::unistd::fork;

use crate::Case;
use crate::control::state;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("kernel.forks", forks),
    ("kernel.pass_count", pass_count),
    ("kernel.max_hits", max_hits),
    ("kernel.rem", rem),
    ("kernel.in_the_middle", in_the_middle),
    ("kernel.registers", registers),
    ("kernel.memory", memory),
    ("kernel.memory_not_there", memory_not_there),
    ("kernel.argument", argument),
    ("kernel.user_memory", user_memory),
    ("kernel.result", result),
    ("kernel.system", system),
    ("kernel.globals", globals),
    ("kernel.every_cpu_counts", every_cpu_counts),
    ("kernel.verifies", verifies),
    ("kernel.interrupts", interrupts),
];

/// The example of the paper: each fork counts, and logs 16 bytes of the stack.
fn forks() {
    take_records();
    let control = Program {
        symbol: "kernel_clone",
        header: Header {
            locals: 2,
            jmpmax: 32,
            logmax: 100,
            major: 1,
            ..Header::new(ModuleKind::Kernel)
        },
        point: Point {
            minor: 2,
            max_hits: 1000,
            ..Point::new(1)
        },
        ..Program::new(&in_this_process(&[
            Insn::with(Op::IncLv, 1),
            Insn::push(16),
            Insn::register(Op::PushR, Register::Sp),
            Insn::new(Op::LogMrf),
            Insn::new(Op::Exit),
        ]))
    }
    .load();
    for _ in 0..100 {
        // SAFETY: The child does nothing but exit.
        match unsafe { fork() }.unwrap() {
            // SAFETY: It ends the child.
            ForkResult::Child => unsafe { libc::_exit(0) },
            ForkResult::Parent { child } => drop(waitpid(child, None).unwrap()),
        }
    }
    // Forks of others, which abort.
    assert!(Command::new("/bin/true").status().unwrap().success());
    let state = state();
    assert!(state.locals[0] == [0, 100] || state.locals[0] == [0, 101]);
    let records = take_records();
    assert_eq!(records.len() as u64, state.locals[0][1]);
    for logged in &records {
        let header = logged.record().header;
        assert_eq!((header.major, header.minor, header.exception), (1, 2, 0));
        assert!(matches!(logged.entries()[..], [Entry::Memory(bytes)] if bytes.len() == 16));
    }
    drop(control);
}

fn counting() -> Program<'static> {
    Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::new(Op::Exit),
    ]))
}

fn pass_count() {
    let mut program = counting();
    program.point.pass_count = 3;
    program.load();
    call(10);
    let state = state();
    assert_eq!(state.locals[0][0], 10 - (3 - (state.number("hits") - 10)));
    assert_eq!(state.number("runs"), state.number("hits") - 3);
    assert_eq!(state.points[0]["state"], "active");
    // As many as there may be: neither makes the other void.
    for (pass_count, max_hits) in [(4, HITS_MAX), (HITS_MAX, 5), (HITS_MAX, HITS_MAX)] {
        let mut program = counting();
        program.point.pass_count = pass_count;
        program.point.max_hits = max_hits;
        program.set.flags = REPLACE;
        program.load();
        call(10);
        let state = crate::control::state();
        let runs = state.number("hits").saturating_sub(pass_count);
        assert_eq!(state.number("runs"), runs);
        assert_eq!(state.locals[0][0], runs.min(10));
        assert_eq!(state.points[0]["state"], "active");
    }
}

fn max_hits() {
    let mut program = counting();
    program.point.pass_count = 1;
    program.point.max_hits = 4;
    program.load();
    call(10);
    let state = state();
    assert_eq!(state.locals[0][0], 4);
    assert_eq!(state.number("runs"), 4);
    assert_eq!(state.points[0]["state"], "disabled");
}

fn rem() {
    Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::new(Op::Rem),
    ]))
    .load();
    call(10);
    let state = state();
    assert_eq!(state.locals[0][0], 1);
    assert_eq!(state.points[0]["state"], "removed");
    // Its breakpoint is removed in the meantime.
    assert!(state.number("hits") >= 1);
    // Not one for each hit after that.
    assert_eq!(state.number("runs"), 1);
}

/// Probes the instruction after the call of ftrace, or the first one without such a call.
fn in_the_middle() {
    let mut program = counting();
    program.point.offset = behind_entry();
    program.load();
    call(10);
    assert_eq!(state().locals[0][0], 10);
    // And one that logs, after the instruction.
    take_records();
    program.code.insert(6, Insn::variables(Op::LogLv, 0, 1));
    program.set.flags = REPLACE;
    program.load();
    call(10);
    assert_eq!(take_records().len(), 10);
    assert_eq!(state().programs.len(), 1);
}

/// The function's argument is the address of the registers in user space.
fn registers() {
    take_records();
    Program::new(&in_this_process(&[
        Insn::register(Op::PushU, Register::Di),
        Insn::register(Op::PushU, Register::Cs),
        Insn::register(Op::PushR, Register::Cs),
        Insn::register(Op::PushR, Register::Cr0),
        Insn::register(Op::PushR, Register::Ip),
        Insn::register(Op::PushR, Register::Flags),
        Insn::with(Op::Log, 6),
        Insn::new(Op::Exit),
    ]))
    .load();
    // SAFETY: There is no such process.
    unsafe { libc::syscall(libc::SYS_getpgid, 0x0123_4567) };
    let records = take_records();
    let entries = records[0].entries();
    let Entry::Words(words) = entries[0] else {
        panic!("{entries:?}");
    };
    let words = words.iter().collect::<Vec<_>>();
    let [_, ip, cr0, cs, user_cs, di] = words[..] else {
        panic!("{words:x?}");
    };
    let address = state().points[0]["address"].clone();
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
    assert_eq!(ip, address);
    assert!(
        cr0 & 1 << 31 != 0 && cs == 0x10 && user_cs == 0x33,
        "{words:x?}"
    );
    assert_eq!(di, 0x0123_4567);
}

/// The argument, by way of the registers in the kernel's memory, and a string in user space.
fn memory() {
    static TEXT: &[u8] = b"a string\0";
    take_records();
    let address = TEXT.as_ptr() as u64;
    Program::new(&in_this_process(&[
        // pt_regs.di
        Insn::register(Op::PushR, Register::Di),
        Insn::push(14 * 8),
        Insn::new(Op::Add),
        Insn::width(Op::PushMem, 8),
        Insn::with(Op::PopLv, 0),
        Insn::push(100),
        Insn::push(address),
        Insn::new(Op::LogStr),
        Insn::push(4),
        Insn::push(address),
        Insn::new(Op::LogMrf),
        Insn::push(1),
        Insn::push(address),
        Insn::new(Op::VfyR),
        Insn::with(Op::PopLv, 1),
        Insn::push(1),
        Insn::push(8),
        Insn::new(Op::VfyR),
        Insn::with(Op::PopLv, 2),
        Insn::new(Op::Exit),
    ]))
    .load();
    // SAFETY: There is no such process.
    unsafe { libc::syscall(libc::SYS_getpgid, 777_777) };
    assert_eq!(state().locals[0][..3], [777_777, 1, 0]);
    let records = take_records();
    let expected = [Entry::Text(b"a string"), Entry::Memory(b"a st")];
    assert_eq!(records[0].entries(), expected);
}

fn memory_not_there() {
    for address in [
        0,
        8,
        0x7fff_ffff_f000,
        0x8000_0000_0000,
        0xffff_8000_0000_0000,
        u64::MAX - 7,
    ] {
        take_records();
        Program::new(&in_this_process(&[
            Insn::with(Op::IncLv, 0),
            Insn::push(address),
            Insn::width(Op::PushMem, 8),
            Insn::with(Op::IncLv, 1),
            Insn::new(Op::Exit),
        ]))
        .load();
        call(3);
        let state = state();
        assert_eq!(state.locals[0][..2], [3, 0], "{address:#x}");
        assert_eq!(state.number("faults"), 3);
        let records = take_records();
        assert_eq!(records.len(), 3);
        let fault = Fault::new(Exception::Address, address);
        assert_eq!(records[0].entries(), [Entry::Exception(fault, 7)]);
        assert_eq!(records[0].record().header.exception, 1);
        crate::control::remove_all();
    }
}

/// Changes an argument on the way: the call is another.
fn argument() {
    let own = u64::from(std::process::id());
    let program = Program::new(&in_this_process(&[
        Insn::push(own),
        Insn::register(Op::PushR, Register::Di),
        Insn::push(14 * 8),
        Insn::new(Op::Add),
        Insn::width(Op::PopMem, 8),
        Insn::new(Op::Exit),
    ]));
    let (errno, text) = program.refused();
    assert_eq!(errno, libc::EPERM);
    assert!(text.contains("UNSAFE_WRITES"), "{text}");
    let program = program.with_writes();
    program.load();
    // SAFETY: The system call takes a number, and no process has this one.
    let group = unsafe { libc::syscall(libc::SYS_getpgid, 777_777) };
    // SAFETY: It takes a number.
    let own = unsafe { libc::getpgid(0) };
    assert_eq!(group, i64::from(own));
    assert_eq!(state().programs[0]["writes"], "1");
}

/// `vfy rw` finds out by writing whether memory of the kernel can be written: its code cannot.
fn verifies() {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let address = |name: &str| {
        let line = symbols
            .lines()
            .find(|line| line.ends_with(&format!(" {name}")));
        u64::from_str_radix(line.unwrap().split(' ').next().unwrap(), 16).unwrap()
    };
    let verify = |op, symbol: &str, local| {
        [
            Insn::push(8),
            Insn::push(address(symbol)),
            Insn::new(op),
            Insn::with(Op::PopLv, local),
        ]
    };
    let code = [
        &verify(Op::VfyR, "_text", 0)[..],
        &verify(Op::VfyRw, "_text", 1),
        &verify(Op::VfyRw, "jiffies_64", 2),
        &[
            Insn::push(8),
            Insn::push(1 << 63 | 1),
            Insn::new(Op::VfyRw),
            Insn::with(Op::PopLv, 3),
        ],
        &[Insn::new(Op::Exit)],
    ]
    .concat();
    Program::new(&code).with_writes().load();
    call(1);
    assert_eq!(state().locals[0], [1, 0, 1, 0]);
}

/// Checks that hits in interrupts run after the running program, not inside it.
fn interrupts() {
    Program::new(&in_this_process(&[
        Insn::push(20_000),
        Insn::new(Op::Nop),
        Insn::with(Op::Loop, 1),
        Insn::new(Op::Exit),
    ]))
    .load();
    let timer = Program {
        symbol: "update_process_times",
        name: "vmlinux",
        ..Program::new(&[
            Insn::register(Op::PushR, Register::Ip),
            Insn::with(Op::PopGv, 3),
            Insn::with(Op::IncLv, 1),
            Insn::new(Op::Exit),
        ])
    };
    let timer = Program {
        set: SetHeader {
            flags: MERGE,
            ..timer.set
        },
        ..timer
    };
    timer.load();
    let start = std::time::Instant::now();
    let hits = || crate::control::number(&state().points[1], "hits");
    // On a busy machine ticks are merged while a program runs.
    while hits() < 50 && start.elapsed() < std::time::Duration::from_secs(60) {
        call(10);
    }
    let state = state();
    let number = |key| crate::control::number(&state.points[1], key);
    assert!(number("hits") >= 50, "{}", number("hits"));
    // In the instructions around a program a hit may still be one too many. With
    // CONFIG_TRACE_IRQFLAGS interrupts are on again before the probed code continues.
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    if !symbols.contains(" trace_hardirqs_off\n") {
        let (hits, missed) = (number("hits"), number("missed"));
        assert!(missed * 20 <= hits, "{missed} of {hits}");
    }
    assert_eq!(crate::control::number(&state.points[0], "faults"), 0);
}

/// Writes the memory of a process only where that process runs. Kernel threads that borrow its page
/// tables on the same CPU do not write it.
fn user_memory() {
    static WORD: AtomicU64 = AtomicU64::new(0);
    let store = |value| {
        [
            Insn::push(value),
            Insn::push(WORD.as_ptr() as u64),
            Insn::width(Op::PopMem, 8),
            Insn::with(Op::IncLv, 0),
            Insn::new(Op::Exit),
        ]
    };
    WORD.store(1, Relaxed);
    Program::new(&in_this_process(&store(2)))
        .with_writes()
        .load();
    call(1);
    assert_eq!((WORD.load(Relaxed), state().locals[0][0]), (2, 1));
    crate::control::remove_all();
    Program {
        symbol: "refresh_vm_stats",
        ..Program::new(&store(3)).with_writes()
    }
    .load();
    for _ in 0..20 {
        // Has a work item run on each CPU, and waits for it.
        std::fs::read("/proc/sys/vm/stat_refresh").unwrap();
        assert_eq!(WORD.load(Relaxed), 2);
    }
    let state = state();
    assert_ne!(state.number("faults"), 0);
    assert_eq!(state.locals[0][0], 0);
}

/// Resumes elsewhere: the function returns at once, with a value from the program.
fn result() {
    let names = std::fs::read_to_string("/proc/kallsyms").unwrap();
    // A function of the kprobes API that only returns.
    let line = names
        .lines()
        .find(|line| line.contains(" ferro_just_return"));
    let address = u64::from_str_radix(line.unwrap().split(' ').next().unwrap(), 16).unwrap();
    for offset in [0, behind_entry()] {
        let mut program = Program::new(&in_this_process(&[
            Insn::push(4321),
            Insn::register(Op::PopR, Register::Ax),
            Insn::push(address),
            Insn::register(Op::PopR, Register::Ip),
            Insn::variables(Op::LogLv, 0, 1),
            Insn::new(Op::Exit),
        ]))
        .with_writes();
        program.point.offset = offset;
        program.set.flags |= REPLACE;
        take_records();
        program.load();
        // SAFETY: It takes a number.
        let group = unsafe { libc::syscall(libc::SYS_getpgid, 0) };
        assert_eq!(group, 4321);
        // The instruction is not executed, but the logged record is present.
        assert_eq!(take_records().len(), 1);
    }
}

fn system() {
    take_records();
    Program::new(&in_this_process(&[
        Insn::new(Op::PushTid),
        Insn::with(Op::PopLv, 0),
        Insn::new(Op::PushProcId),
        Insn::with(Op::PopLv, 1),
        Insn::new(Op::PushTask),
        Insn::with(Op::PopLv, 2),
        Insn::new(Op::PushTime),
        Insn::with(Op::PopLv, 3),
        Insn::new(Op::Exit),
    ]))
    .load();
    call(1);
    let first = state().locals[0].clone();
    call(1);
    let second = state().locals[0].clone();
    // SAFETY: It takes nothing.
    let thread = unsafe { libc::gettid() };
    assert_eq!(first[0], thread as u64);
    assert!(first[1] < 64 && first[2] > 1 << 63);
    assert!(second[3] > first[3] && second[2] == first[2]);
}

/// Two programs use one global variable.
fn globals() {
    let inc = |name| Program {
        name,
        ..Program::new(&in_this_process(&[
            Insn::with(Op::IncGv, 1),
            Insn::new(Op::Exit),
        ]))
    };
    inc("one").load();
    inc("two").load();
    call(5);
    let state = state();
    assert_eq!(state.globals[..3], [0, 10, 0]);
    assert_eq!(state.globals.len(), 256);
}

/// Checks that the additions of all CPUs to one variable add up.
fn every_cpu_counts() {
    const CALLS: u64 = 20_000;
    Program::new(&in_this_process(&[
        Insn::with(Op::IncLv, 0),
        Insn::with(Op::IncGv, 0),
        Insn::new(Op::Exit),
    ]))
    .load();
    let threads = (0..4).map(|_| std::thread::spawn(|| call(CALLS)));
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    let state = state();
    assert_eq!(state.locals[0][0] + state.number("missed"), 4 * CALLS);
    assert_eq!(state.globals[0], state.locals[0][0]);
    assert_eq!(state.number("missed"), 0);
}
