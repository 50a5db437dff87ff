// SPDX-License-Identifier: GPL-2.0

//! Tests of watchpoints with an address from a program.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::Control;
use crate::control::Keys;
use crate::control::state;
use crate::module::Loaded;
use crate::module::parameter;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("arm.object", object),
    ("arm.again", again),
    ("arm.itself", itself),
    ("arm.bad_address", bad_address),
    ("arm.no_register", no_register),
    ("arm.used_up", used_up),
    ("arm.not_there", not_there),
    ("arm.refused", refused),
    ("arm.module_goes", module_goes),
    ("arm.unload", unload),
    ("arm.storm", storm),
];

/// The minor number of the watchpoint.
const WATCH: u32 = 7;

static WORDS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn address(n: usize) -> u64 {
    WORDS[n].as_ptr() as u64
}

/// Stores a word, by a store that the compiler keeps.
fn store(n: usize, value: u64) {
    WORDS[n].store(value, Relaxed);
    std::hint::black_box(WORDS[n].load(Relaxed));
}

/// Arms the watchpoint with the argument that this process passes to the system call.
const ARMS: [Insn; 3] = [
    Insn::register(Op::PushU, Register::Di),
    Insn::with(Op::Arm, WATCH),
    Insn::new(Op::Exit),
];

/// Counts writes.
const COUNTS: [Insn; 2] = [Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)];

/// Has the program of [`ARMS`] see an address.
fn say(address: u64) {
    // SAFETY: It takes a number.
    unsafe { libc::syscall(libc::SYS_getpgid, address) };
}

fn watchpoint() -> Point {
    Point {
        kind: PointKind::WatchWrite,
        watch_len: 8,
        is_later: true,
        minor: WATCH,
        ..Point::new(1)
    }
}

/// A program that arms a watchpoint, and the program of the watchpoint. The latter is the second
/// point.
struct Arming<'a> {
    program: Program<'a>,
    watch: Point,
    watches: Vec<Insn>,
}

impl<'a> Arming<'a> {
    fn new(arms: &[Insn], watches: &[Insn]) -> Self {
        Self {
            program: Program::new(&in_this_process(arms)),
            watch: watchpoint(),
            watches: in_this_process(watches),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let arms = PointSource {
            point: self.program.point,
            symbol: self.program.symbol,
            code: &self.program.code,
        };
        let watches = PointSource {
            point: self.watch,
            symbol: "",
            code: &self.watches,
        };
        self.program.bytes_of(&[arms, watches])
    }

    fn load(&self) {
        let control = Control::open();
        if let Err(error) = control.write(&self.bytes()) {
            panic!("{error}: {:?}", control.state().error);
        }
    }
}

/// A set with a watchpoint that can be armed.
pub fn set() -> Vec<u8> {
    Arming::new(&ARMS, &COUNTS).bytes()
}

/// Arms and disarms. If memory for the work item is short, nothing is watched and the state says
/// so, until a program arms the watchpoint again.
pub fn arms() {
    Arming::new(&ARMS, &COUNTS).load();
    say(address(0));
    let first = becomes(|point| point["state"] != "disarmed" || point["address"] != "0x0");
    println!("{}", first["state"]);
    if !is_watched(address(0))(&first) {
        assert!(is_in("error")(&first), "{first:?}");
        store(0, 1);
        assert_eq!(state().locals[0][0], 0);
        say(address(0));
        becomes(is_watched(address(0)));
    }
    store(0, 1);
    assert_eq!(state().locals[0][0], 1);
    say(0);
    becomes(is_in("disarmed"));
    store(0, 1);
    assert_eq!(state().locals[0][0], 1);
}

/// Waits for a state of the watchpoint, and returns it.
fn becomes(is_wanted: impl Fn(&Keys) -> bool) -> Keys {
    comes(|state| is_wanted(&state.points[1])).points[1].clone()
}

fn is_watched(address: u64) -> impl Fn(&Keys) -> bool {
    let wanted = format!("{address:#x}");
    move |point| point["state"] == "active" && point["address"] == wanted
}

fn is_in(state: &'static str) -> impl Fn(&Keys) -> bool {
    move |point| point["state"] == state && point["address"] == "0x0"
}

/// Watches an object of a module from its allocation until it is freed.
fn object() {
    let _module = Loaded::new();
    take_records();
    let argument = Insn::register(Op::PushR, Register::Di);
    let takes = [
        argument,
        Insn::with(Op::MoveLv, 1),
        Insn::with(Op::Arm, WATCH),
        Insn::new(Op::Exit),
    ];
    let gives = [Insn::with(Op::Disarm, WATCH), Insn::new(Op::Exit)];
    let changes = [
        Insn::with(Op::PushLv, 1),
        Insn::width(Op::PushMem, 8),
        Insn::with(Op::Log, 1),
        Insn::new(Op::Exit),
    ];
    let point = |symbol, code| PointSource {
        point: Point::new(1),
        symbol,
        code,
    };
    let points = [
        point("dprobes_selftest_take", &takes[..]),
        PointSource {
            point: watchpoint(),
            symbol: "",
            code: &changes,
        },
        point("dprobes_selftest_give", &gives),
    ];
    let mut program = Program::new(&[]);
    program.name = crate::module::NAME;
    program.header.kind = ModuleKind::Module;
    let control = Control::open();
    control.write(&program.bytes_of(&points)).unwrap();
    let write = |value: u64| std::fs::write(parameter("object"), value.to_string()).unwrap();
    assert!(is_in("disarmed")(&state().points[1]));
    for round in 1..3 {
        // The object is allocated with this word, and is watched some time later.
        write(round * 100);
        becomes(|point| point["state"] == "active" && point["address"] != "0x0");
        write(round * 100 + 1);
        write(round * 100 + 2);
        // Frees the object.
        write(0);
        becomes(is_in("disarmed"));
    }
    // Until the watchpoint is disarmed, the allocator and memory checkers may write there, too.
    let mut words = words_of(&take_records());
    words.retain(|word| (1..1000).contains(word));
    assert_eq!(words, [101, 102, 201, 202]);
}

/// Moves the watchpoint to another address; then it watches nothing.
fn again() {
    Arming::new(&ARMS, &COUNTS).load();
    let first = state();
    assert_eq!(first.points[1]["place"], "later");
    assert!(is_in("disarmed")(&first.points[1]));
    store(0, 1);
    for (n, count) in [(0, 1), (1, 2), (0, 3)] {
        say(address(n));
        becomes(is_watched(address(n)));
        store(n, 5);
        store(1 - n, 5);
        assert_eq!(state().locals[0][0], count);
    }
    // As it is.
    say(address(0));
    say(0);
    becomes(is_in("disarmed"));
    store(0, 6);
    store(1, 6);
    assert_eq!(state().locals[0][0], 3);
    say(address(1));
    becomes(is_watched(address(1)));
    store(1, 7);
    assert_eq!(state().locals[0][0], 4);
}

/// A watchpoint that moves itself, by a number from the stack.
fn itself() {
    let moves = [
        Insn::with(Op::IncLv, 0),
        Insn::push(address(1)),
        Insn::push(WATCH.into()),
        Insn::from_stack(Op::Arm),
        Insn::new(Op::Exit),
    ];
    Arming::new(&ARMS, &moves).load();
    say(address(0));
    becomes(is_watched(address(0)));
    store(0, 1);
    becomes(is_watched(address(1)));
    store(0, 2);
    store(1, 2);
    assert_eq!(state().locals[0][0], 2);
}

/// Arms with an address that cannot be watched, then with another address.
fn bad_address() {
    Arming::new(&ARMS, &COUNTS).load();
    // Not a multiple of the length, and where the CPU's entry is.
    for bad in [address(0) + 1, 0xffff_fe00_0000_0000] {
        say(bad);
        becomes(is_in("error"));
        say(address(0));
        becomes(is_watched(address(0)));
        store(0, 1);
    }
    assert_eq!(state().locals[0][0], 2);
}

fn fixed(n: usize, name: &'static str) -> Program<'static> {
    Program {
        name,
        symbol: "",
        point: Point {
            is_later: false,
            is_absolute: true,
            offset: address(n),
            ..watchpoint()
        },
        ..Program::new(&COUNTS)
    }
}

/// As many as there are debug registers.
fn all_fixed() {
    for (n, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        fixed(n, name).load();
    }
}

/// All debug registers are taken: the program may arm it again when one is free.
fn no_register() {
    Arming::new(&ARMS, &COUNTS).load();
    all_fixed();
    say(address(4));
    becomes(is_in("unavailable"));
    say(address(4));
    Control::open().write(b"remove b").unwrap();
    let armed = || {
        say(address(4));
        state()
    };
    let start = std::time::Instant::now();
    while !is_watched(address(4))(&armed().points[1]) {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    store(4, 1);
    assert_eq!(state().locals[0][0], 1);
    // Moving needs no second watchpoint.
    say(address(1));
    becomes(is_watched(address(1)));
    // None is free but that which it gives back.
    let control = Control::open();
    assert!(control.write(&fixed(4, "e").bytes()).is_err());
    say(0);
    becomes(is_in("disarmed"));
    fixed(4, "e").load();
}

/// Uses up the program's permitted runs; then the watchpoint watches nothing.
fn used_up() {
    let mut arming = Arming::new(&ARMS, &COUNTS);
    arming.watch.max_hits = 1;
    arming.load();
    say(address(0));
    becomes(is_watched(address(0)));
    store(0, 1);
    becomes(is_in("disabled"));
    for _ in 0..3 {
        say(address(1));
        std::thread::sleep(Duration::from_millis(20));
        store(1, 1);
    }
    let state = state();
    assert!(is_in("disabled")(&state.points[1]));
    assert_eq!(state.locals[0][0], 1);
    all_fixed();
}

/// A number from the stack that no watchpoint has is an exception.
fn not_there() {
    let arms = [
        Insn::push(address(0)),
        Insn::push(8),
        Insn::from_stack(Op::Arm),
        Insn::new(Op::Exit),
    ];
    Arming::new(&arms, &COUNTS).load();
    call(1);
    let state = state();
    assert_eq!(state.number("faults"), 1);
    assert!(is_in("disarmed")(&state.points[1]));
}

fn refused() {
    let control = Control::open();
    let mut arming = Arming::new(&ARMS, &COUNTS);
    let refused = |arming: &Arming<'_>, why: &str| {
        let error = control.write(&arming.bytes()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let text = control.state().error.unwrap();
        assert!(text.contains(why), "{text}");
        assert!(state().programs.is_empty());
    };
    arming.watch.minor = 8;
    refused(
        &arming,
        "the program has no watchpoint 7 whose address comes later",
    );
    arming.watch.minor = WATCH;
    arming.watch.kind = PointKind::Breakpoint;
    arming.watch.watch_len = 0;
    refused(&arming, "only a watchpoint's address comes later");
    arming.watch = watchpoint();
    arming.program.point = watchpoint();
    arming.program.symbol = "";
    refused(&arming, "have the minor number 7");
}

/// Unloads the module of a program; then the program watches nothing.
fn module_goes() {
    let mut arming = Arming::new(&ARMS, &COUNTS);
    arming.program.name = crate::module::NAME;
    arming.program.header.kind = ModuleKind::Module;
    arming.program.symbol = "dprobes_selftest_take";
    // The object, whichever task allocates it.
    arming.program.code = [&[Insn::register(Op::PushR, Register::Di)], &ARMS[1..]].concat();
    arming.load();
    for _ in 0..2 {
        let module = Loaded::new();
        assert!(is_in("disarmed")(&state().points[1]));
        std::fs::write(parameter("object"), "1").unwrap();
        becomes(|point| point["state"] == "active");
        drop(module);
        assert!(is_in("disarmed")(&state().points[1]));
        all_fixed();
        for name in ["a", "b", "c", "d"] {
            let command = format!("remove {name}");
            Control::open().write(command.as_bytes()).unwrap();
        }
    }
}

fn reload() {
    execute("rmmod", "rust_dprobes");
    let kdir = std::env::var("FERROTRACE_KDIR").unwrap();
    execute(
        "insmod",
        &format!("{kdir}/kernel/ferrotrace/rust_dprobes.ko"),
    );
}

/// Unloads the engine while a watchpoint is armed, and just after arming was requested.
fn unload() {
    for waits in [true, false] {
        Arming::new(&ARMS, &COUNTS).load();
        say(address(0));
        if waits {
            becomes(is_watched(address(0)));
        }
        reload();
        store(0, 1);
        all_fixed();
        crate::control::remove_all();
    }
}

/// Arms on all CPUs while the watchpoint is hit and its program is replaced and removed. Modules
/// with deferred work can be unloaded at the same time.
fn storm() {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..4usize {
            let is_over = &is_over;
            scope.spawn(move || {
                for round in n.. {
                    if is_over.load(Relaxed) {
                        return;
                    }
                    say([address(round % 5), 0, address(round % 3)][round % 3]);
                    store(round % 5, 1);
                    if round % 64 == n {
                        // So that grace periods end.
                        std::thread::sleep(Duration::from_micros(500));
                    }
                }
            });
        }
        let result = std::panic::catch_unwind(|| {
            let control = Control::open();
            for round in 0..20 {
                let mut arming = Arming::new(&ARMS, &COUNTS);
                arming.program.set.flags = REPLACE;
                control.write(&arming.bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                if round % 4 == 0 {
                    drop(Loaded::new());
                    control.write(b"remove *").unwrap();
                }
            }
        });
        is_over.store(true, Relaxed);
        result.unwrap();
    });
    crate::control::remove_all();
    all_fixed();
}
