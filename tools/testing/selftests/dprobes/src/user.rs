// SPDX-License-Identifier: GPL-2.0

//! Points in user space: in this program.

use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::state;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("user.arguments", arguments),
    ("user.other_processes", other_processes),
    ("user.changes", changes),
    ("user.with_the_kernel", with_the_kernel),
    ("user.opcode", opcode),
    ("user.refused", refused),
    ("user.core_dump", core_dump),
    ("user.fault_discards", fault_discards),
    ("user.killed_discards", killed_discards),
    ("user.skip_discards", skip_discards),
    ("user.two_points", two_points),
    ("user.many_threads", many_threads),
    ("user.verifies", verifies),
];

/// The probed function.
#[inline(never)]
pub extern "C" fn target(a: u64, b: *const u8) -> u64 {
    std::hint::black_box(b);
    std::hint::black_box(a) + 1
}

// A function that loads a word, one with a first instruction that is emulated rather than executed
// in a copy, and one that begins with the NOP that uprobes replaces by a call.
std::arch::global_asm!(
    ".text",
    ".globl dprobes_test_load",
    ".type dprobes_test_load, @function",
    "dprobes_test_load:",
    "mov rax, [rdi]",
    "ret",
    ".size dprobes_test_load, . - dprobes_test_load",
    ".globl dprobes_test_nop",
    ".type dprobes_test_nop, @function",
    "dprobes_test_nop:",
    "nop",
    "ret",
    ".size dprobes_test_nop, . - dprobes_test_nop",
    ".balign 64",
    ".globl dprobes_test_long_nop",
    ".type dprobes_test_long_nop, @function",
    "dprobes_test_long_nop:",
    ".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0",
    "mov rax, [rdi]",
    "ret",
    ".size dprobes_test_long_nop, . - dprobes_test_long_nop",
);

unsafe extern "C" {
    /// Loads a word.
    fn dprobes_test_load(word: *const u64) -> u64;
    /// Does nothing.
    fn dprobes_test_nop();
    /// Loads a word.
    fn dprobes_test_long_nop(word: *const u64) -> u64;
}

/// Body of the child processes of these tests: see main.rs.
pub fn child(calls: u64) {
    for n in 0..calls {
        target(n, std::ptr::null());
    }
}

/// Returns the offset of a function of this program in its file.
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

/// Hits points in processes that start later, several at a time.
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

/// Passes a value from a point in user space to one in the kernel, which looks for it.
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

/// `vfy rw` finds out by writing whether memory of the process can be written.
fn verifies() {
    let path = path();
    let verify = |op, local| {
        [
            Insn::push(4096),
            Insn::register(Op::PushR, Register::Si),
            Insn::new(op),
            Insn::with(Op::PopLv, local),
        ]
    };
    let code = [
        &verify(Op::VfyR, 0)[..],
        &verify(Op::VfyRw, 1),
        &[Insn::new(Op::Exit)],
    ]
    .concat();
    program(&path, &code).with_writes().load();
    let page = map_page();
    for (protection, expected) in [
        (libc::PROT_NONE, [0, 0]),
        (libc::PROT_READ, [1, 0]),
        (libc::PROT_READ | libc::PROT_WRITE, [1, 1]),
    ] {
        // SAFETY: The page is this function's.
        unsafe {
            libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE);
            page.cast::<u8>().write_volatile(7);
            libc::mprotect(page, 4096, protection);
        }
        target(1, page.cast());
        assert_eq!(state().locals[0][..2], expected);
    }
    // SAFETY: As above.
    assert_eq!(unsafe { page.cast::<u8>().read_volatile() }, 7);
}

fn opcode() {
    let path = path();
    let mut program = program(&path, &[Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)]);
    program.point.opcode = Some(0xf4);
    program.load();
    target(1, std::ptr::null());
    let state = state();
    assert_eq!(state.points[0]["state"], "mismatch");
    // SAFETY: The code of this program.
    let byte = unsafe { (target as *const u8).read_volatile() };
    assert_eq!(state.points[0]["found"], format!("{byte:#04x}"));
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

/// Logs the word, and counts, at a function of this program.
fn logging<'a>(path: &'a str, function: *const (), word: u64) -> Program<'a> {
    let mut program = program(
        path,
        &[
            Insn::with(Op::IncLv, 0),
            Insn::push(word),
            Insn::with(Op::Log, 1),
            Insn::new(Op::Exit),
        ],
    );
    program.point.offset = offset_of(function as u64);
    program
}

/// Returns the words of all records.
fn words() -> Vec<u64> {
    let records = take_records();
    let words = records.iter().map(|logged| match logged.entries()[..] {
        [Entry::Words(words)] => words.iter().next().unwrap(),
        _ => panic!("not a word"),
    });
    words.collect()
}

/// A page that cannot be read, until the handler of its fault has been called.
static PAGE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_fault(_signal: i32) {
    // SAFETY: It is the page that `fault_discards()` has mapped.
    unsafe { libc::mprotect(PAGE.load(Relaxed), 4096, libc::PROT_READ) };
}

fn map_page() -> *mut c_void {
    // SAFETY: New memory.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

/// Checks an instruction that faults and is executed again after the signal: it is hit twice, and
/// executed once. With `logonfault` the record is present.
fn fault_discards() {
    let path = path();
    let page = map_page();
    PAGE.store(page, Relaxed);
    let handler = on_fault as extern "C" fn(i32) as libc::sighandler_t;
    for (log_on_fault, expected) in [(false, &[7][..]), (true, &[7, 7])] {
        take_records();
        let mut program = logging(&path, dprobes_test_load as *const (), 7);
        program.point.log_on_fault = log_on_fault;
        program.load();
        // SAFETY: It is the page above; the handler only makes it readable, where the fault is.
        unsafe {
            libc::mprotect(page, 4096, libc::PROT_NONE);
            let before = libc::signal(libc::SIGSEGV, handler);
            assert_eq!(dprobes_test_load(page.cast()), 0);
            libc::signal(libc::SIGSEGV, before);
        }
        assert_eq!(state().locals[0][0], 2);
        assert_eq!(words(), expected, "log_on_fault {log_on_fault}");
        crate::control::remove_all();
    }
}

/// Checks processes that an instruction kills: nothing is logged, and waiting records are freed.
fn killed_discards() {
    const KILLED: u64 = 300;
    let path = path();
    take_records();
    logging(&path, dprobes_test_load as *const (), 7).load();
    let page = map_page();
    for _ in 0..KILLED {
        // SAFETY: The child only makes system calls, and faults.
        match unsafe { nix::unistd::fork() }.unwrap() {
            nix::unistd::ForkResult::Child => {
                // SAFETY: It ends this process.
                unsafe {
                    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                    dprobes_test_load(page.cast());
                    libc::_exit(1)
                }
            }
            nix::unistd::ForkResult::Parent { child } => {
                let status = nix::sys::wait::waitpid(child, None).unwrap();
                assert!(matches!(
                    status,
                    nix::sys::wait::WaitStatus::Signaled(_, nix::sys::signal::SIGSEGV, _)
                ));
            }
        }
    }
    assert_eq!(state().locals[0][0], KILLED);
    assert_eq!(words(), []);
    // Nor is the record attributed to the next process.
    let word = 5;
    // SAFETY: The word is there.
    assert_eq!(unsafe { dprobes_test_load(&word) }, 5);
    assert_eq!(words(), [7]);
}

/// Checks that a program that resumes elsewhere has its record. The other points of the
/// instruction, which is not executed, have none, whether called before or after. The same holds
/// where uprobes has a call in place of a NOP.
fn skip_discards() {
    let path = path();
    // Another name of the same file.
    let other = format!("/proc/self/root{path}");
    type Load = unsafe extern "C" fn(*const u64) -> u64;
    let functions = [
        (dprobes_test_load as Load, 3),
        (dprobes_test_long_nop as Load, 13),
    ];
    for (load, len) in functions {
        let logs = logging(&path, load as *const (), 7);
        let mut skips = program(
            &other,
            &[
                Insn::push(8),
                Insn::with(Op::Log, 1),
                Insn::register(Op::PushR, Register::Ip),
                Insn::push(len),
                Insn::new(Op::Add),
                Insn::register(Op::PopR, Register::Ip),
                Insn::push(9),
                Insn::register(Op::PopR, Register::Ax),
                Insn::new(Op::Exit),
            ],
        )
        .with_writes();
        skips.point.offset = offset_of(load as *const () as u64);
        for order in [[&logs, &skips], [&skips, &logs]] {
            take_records();
            order.iter().for_each(|program| drop(program.load()));
            for _ in 0..4 {
                let word = 5;
                // SAFETY: The word is there.
                assert_eq!(unsafe { load(&word) }, 9);
            }
            assert_eq!(words(), [8; 4], "{len} bytes");
            // SAFETY: The code of this program.
            let byte = unsafe { (load as *const u8).read_volatile() };
            // With the call it begins with LEA.
            assert_eq!(byte, if len == 13 { 0x48 } else { 0xcc });
            crate::control::remove_all();
        }
    }
}

/// Checks that each point of an instruction has its record, whether the instruction is emulated or
/// executed in a copy. A point that aborts has none.
fn two_points() {
    let path = path();
    let other = format!("/proc/self/root{path}");
    let word = 5;
    for function in [
        dprobes_test_nop as *const (),
        dprobes_test_load as *const (),
    ] {
        take_records();
        logging(&path, function, 1).load();
        let mut second = logging(&path, function, 2);
        second.set.flags = MERGE;
        second.load();
        let mut aborts = logging(&other, function, 3);
        *aborts.code.last_mut().unwrap() = Insn::new(Op::Abort);
        aborts.load();
        for _ in 0..10 {
            // SAFETY: The word is there.
            unsafe {
                dprobes_test_nop();
                dprobes_test_load(&word);
            }
        }
        let mut all = words();
        all.sort_unstable();
        assert_eq!(all, [[1; 10], [2; 10]].concat());
        assert_eq!(state().locals[1][0], 10);
        crate::control::remove_all();
    }
}

/// Runs threads on several CPUs, which are preempted and migrated between a hit and the end of its
/// instruction. Each has all of its records, while processes die of the same instruction.
fn many_threads() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 400;
    let path = path();
    take_records();
    logging(&path, dprobes_test_load as *const (), 7).load();
    let page = map_page() as usize;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for word in 0..ROUNDS {
                    // SAFETY: The word is there.
                    assert_eq!(unsafe { dprobes_test_load(&word) }, word);
                }
            });
        }
        for _ in 0..20 {
            // SAFETY: The child only makes system calls, and faults.
            match unsafe { libc::fork() } {
                // SAFETY: It ends this process.
                0 => unsafe {
                    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                    dprobes_test_load(page as *const u64);
                    libc::_exit(1)
                },
                child => {
                    // SAFETY: No status is wanted.
                    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                }
            }
        }
    });
    let state = state();
    assert_eq!(state.number("hits"), THREADS * ROUNDS + 20);
    let runs_of_killed = state.number("runs") + state.number("missed") - THREADS * ROUNDS;
    assert_eq!(runs_of_killed, 20);
    let logged = words().len() as u64;
    let expected = THREADS * ROUNDS;
    // A hit is missed where another program was running on the CPU, and has no record.
    assert!(logged <= expected && logged + state.number("missed") >= expected);
}
