// SPDX-License-Identifier: GPL-2.0

//! Programs for the tests, and the calls that hit them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use std::time::Instant;

use ferro_dprobes_core::*;
use nix::sched::CpuSet;
use nix::sched::sched_getaffinity;
use nix::sched::sched_setaffinity;
use nix::unistd::Pid;

use crate::control::Control;
use crate::control::DIR;
use crate::control::State;
use crate::control::remove_all;
use crate::control::state;

/// The function behind [`call`], which other tasks rarely call.
pub const SYMBOL: &str = "__x64_sys_getpgid";

/// Runs a program, which works.
pub fn execute(program: &str, argument: &str) {
    let status = std::process::Command::new(program).arg(argument).status();
    assert!(status.unwrap().success(), "{program} {argument}");
}

/// Calls the function that is probed.
pub fn call(n: u64) {
    for _ in 0..n {
        // SAFETY: It takes a number.
        unsafe { libc::syscall(libc::SYS_getpgid, 0) };
    }
}

/// Does something on the first CPU.
pub fn on_one_cpu<T>(f: impl FnOnce() -> T) -> T {
    on_cpu(0, f)
}

/// Does something on a CPU.
pub fn on_cpu<T>(cpu: usize, f: impl FnOnce() -> T) -> T {
    let thread = Pid::from_raw(0);
    let before = sched_getaffinity(thread).unwrap();
    let mut one = CpuSet::new();
    one.set(cpu).unwrap();
    sched_setaffinity(thread, &one).unwrap();
    let result = f();
    sched_setaffinity(thread, &before).unwrap();
    result
}

/// A program of one point, before it is loaded.
pub struct Program<'a> {
    pub set: SetHeader,
    pub header: Header,
    pub name: &'a str,
    pub symbol: &'a str,
    pub point: Point,
    pub code: Vec<Insn>,
}

impl Program<'static> {
    /// Of the function that [`call`] calls, with 4 local and 4 global variables.
    pub fn new(code: &[Insn]) -> Self {
        Self {
            set: SetHeader::default(),
            header: Header {
                locals: 4,
                globals: 4,
                major: 1,
                ..Header::new(ModuleKind::Kernel)
            },
            name: "vmlinux",
            symbol: SYMBOL,
            point: Point {
                minor: 2,
                ..Point::new(1)
            },
            code: code.to_vec(),
        }
    }
}

impl Program<'_> {
    pub fn with_writes(mut self) -> Self {
        self.set.flags |= UNSAFE_WRITES;
        self
    }

    /// With these points in place of its own.
    pub fn bytes_of(&self, points: &[PointSource<'_>]) -> Vec<u8> {
        let program = ProgramSource {
            header: self.header,
            name: self.name,
            points,
        };
        let mut bytes = Vec::new();
        encode(&mut bytes, self.set, &[program]).unwrap();
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        let point = PointSource {
            point: self.point,
            symbol: self.symbol,
            code: &self.code,
        };
        self.bytes_of(&[point])
    }

    /// Loads it, which works.
    pub fn load(&self) -> Control {
        let control = Control::open();
        if let Err(error) = control.write(&self.bytes()) {
            panic!("{error}: {:?}", control.state().error);
        }
        control
    }

    /// Loads it, which is refused: with which errno, and why.
    pub fn refused(&self) -> (i32, String) {
        let control = Control::open();
        let error = control.write(&self.bytes()).expect_err("it is loaded");
        (
            error.raw_os_error().unwrap(),
            control.state().error.unwrap(),
        )
    }
}

/// Returns the state as soon as `is_wanted` accepts it; panics after some seconds.
pub fn comes(is_wanted: impl Fn(&State) -> bool) -> State {
    let start = Instant::now();
    loop {
        let state = state();
        if is_wanted(&state) || start.elapsed() > Duration::from_secs(10) {
            assert!(is_wanted(&state), "{:?}", state.points);
            return state;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Offset of a function's instruction after the call of ftrace, which has a landing pad before it
/// on kernels with IBT.
pub fn behind_entry() -> u64 {
    let config = std::env::var("FERROTRACE_KDIR").unwrap() + "/.config";
    let config = std::fs::read_to_string(config).unwrap();
    match config.lines().any(|line| line == "CONFIG_X86_KERNEL_IBT=y") {
        true => 9,
        false => 5,
    }
}

/// Offset in the function, behind its entry, of an instruction that may fault, so that records wait
/// for it. All calls execute it.
pub fn offset_that_waits() -> u64 {
    let code = [Insn::push(1), Insn::with(Op::Log, 1), Insn::new(Op::Exit)];
    let waits = |offset: &u64| {
        let mut program = Program::new(&code);
        program.point.offset = *offset;
        program.point.pass_count = u32::MAX.into();
        let control = Control::open();
        // Not in the middle of an instruction.
        let is_loaded = control.write(&program.bytes()).is_ok();
        let waits = is_loaded && control.state().points[0]["waits"] == "1";
        remove_all();
        waits
    };
    (1..64).find(waits).expect("no instruction of it may fault")
}

/// Instructions that jump to the end unless this process has hit the point. The last one of `rest`
/// has to end the program.
pub fn in_this_process(rest: &[Insn]) -> Vec<Insn> {
    let pid = u64::from(std::process::id());
    let mut code = vec![
        Insn::new(Op::PushPid),
        Insn::push(pid),
        Insn::new(Op::Sub),
        Insn::with(Op::Jz, 5),
        Insn::new(Op::Abort),
    ];
    // Targets move.
    code.extend(rest.iter().map(|insn| match insn.target() {
        Some(target) => Insn::with(insn.op, target + 5),
        None => *insn,
    }));
    code
}

/// A record of the channel: type, time and data.
pub struct Logged {
    pub kind: u16,
    pub time: u64,
    pub data: Vec<u8>,
}

impl Logged {
    pub fn record(&self) -> RecordRef<'_> {
        RecordRef::decode(&self.data).expect("not a record")
    }

    pub fn entries(&self) -> Vec<Entry<'_>> {
        let entries = self.record().entries();
        entries.map(|entry| entry.expect("not an entry")).collect()
    }
}

/// Takes all records of all CPUs, in the order of their times.
pub fn take_records() -> Vec<Logged> {
    let mut records = Vec::new();
    for cpu in 0.. {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let Ok(mut file) = options.open(format!("{DIR}/cpu{cpu}")) else {
            break;
        };
        let mut piece = vec![0; 1 << 17];
        while let Ok(n) = file.read(&mut piece) {
            if n == 0 {
                break;
            }
            split(&piece[..n], &mut records);
        }
    }
    records.sort_by_key(|record| record.time);
    records
}

/// Returns the words of records that have logged nothing else.
pub fn words_of(records: &[Logged]) -> Vec<u64> {
    let words = records
        .iter()
        .flat_map(|logged| match logged.entries()[..] {
            [Entry::Words(words)] => words.iter().collect::<Vec<_>>(),
            _ => panic!("not words"),
        });
    words.collect()
}

/// `struct relay_fast_record`: length, type, flags, then maybe the time, and the data.
fn split(mut bytes: &[u8], records: &mut Vec<Logged>) {
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let len = u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
        let kind = u16::from_le_bytes([head[4], head[5]]);
        let flags = u16::from_le_bytes([head[6], head[7]]);
        let (time, rest) = match flags & 1 {
            0 => (0, rest),
            _ => {
                let (time, rest) = rest.split_first_chunk().unwrap();
                (u64::from_le_bytes(*time), rest)
            }
        };
        if flags & 6 == 0 {
            records.push(Logged {
                kind,
                time,
                data: rest[..len].to_vec(),
            });
        }
        bytes = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
}
