// SPDX-License-Identifier: GPL-2.0

//! Tests during a load or unload of a set: none of its programs runs, and no other task waits for
//! it.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::Control;
use crate::control::state;
use crate::testlib::*;
use crate::user;

pub const CASES: &[Case] = &[
    ("meanwhile.own_file", own_file),
    ("meanwhile.modules", modules),
    ("meanwhile.nothing_runs", nothing_runs),
    ("meanwhile.many_go", many_go),
];

static WORD: AtomicU64 = AtomicU64::new(0);

/// Loads with the control file itself as the probed file. The control file is no code. Opening it
/// takes the table's lock.
fn own_file() {
    let path = format!("{}/control", crate::control::DIR);
    let (errno, _) = user::program(&path, &[Insn::new(Op::Exit)]).refused();
    assert_eq!(errno, libc::EINVAL);
    assert!(state().programs.is_empty());
}

/// A file under a lease of this process: opening it waits.
struct Leased(File, String);

impl Leased {
    fn new() -> io::Result<Self> {
        // Longer than any task waits here.
        std::fs::write("/proc/sys/fs/lease-break-time", "600")?;
        // SIGIO says that another task wants the file, and would end the process.
        // SAFETY: Ignores a signal that this program does not use.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        let path = format!("/dev/shm/dprobes_leased.{}", std::process::id());
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        file.set_len(4096)?;
        // SAFETY: A number and a descriptor that is open.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } {
            0 => Ok(Self(file, path)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn release(&self) {
        // SAFETY: A number and a descriptor that is open.
        let released = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        assert_eq!(released, 0);
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.1);
    }
}

/// Loads and unloads modules, loads programs and reads the state while another set waits for a file
/// to be opened.
fn modules() {
    if !std::fs::metadata("/dev/shm").is_ok_and(|dir| dir.is_dir()) {
        execute("mkdir", "/dev/shm");
    }
    let leased = Leased::new().expect("a lease");
    let module = format!(
        "{}/kernel/ferrotrace/samples/kprobe_fork_c.ko",
        std::env::var("FERROTRACE_KDIR").unwrap()
    );
    let is_done = AtomicBool::new(false);
    let (quick, waited) = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut program = user::program(&leased.1, &[Insn::new(Op::Exit)]);
            program.point.offset = 16;
            let result = Control::open().write(&program.bytes());
            is_done.store(true, Relaxed);
            result
        });
        thread::sleep(Duration::from_millis(500));
        let began = !is_done.load(Relaxed);
        let start = Instant::now();
        let others = scope.spawn(|| {
            execute("insmod", &module);
            execute("rmmod", "kprobe_fork_c");
            Program::new(&[Insn::new(Op::Exit)]).load();
            state().programs.len()
        });
        // If these tasks wait for the lease, they have to finish, too.
        while !others.is_finished() && start.elapsed() < Duration::from_secs(120) {
            thread::sleep(Duration::from_millis(10));
        }
        let quick = began && others.is_finished() && !is_done.load(Relaxed);
        leased.release();
        assert_eq!(others.join().unwrap(), 1);
        (quick, waiting.join().unwrap())
    });
    assert!(quick, "it has waited for the file");
    // The zeros there are an instruction.
    waited.unwrap();
    assert_eq!(state().programs.len(), 2);
}

/// Checks that points of a set that cannot be loaded neither run nor count: in user space, watched,
/// in the kernel.
fn nothing_runs() {
    let code = [Insn::with(Op::IncGv, 0), Insn::new(Op::Exit)];
    let path = user::path();
    let of_user = user::program(&path, &code).point;
    let watched = Point {
        kind: PointKind::WatchWrite,
        watch_len: 8,
        is_absolute: true,
        offset: WORD.as_ptr() as u64,
        ..Point::new(1)
    };
    let source = |point, symbol| PointSource {
        point,
        symbol,
        code: &code,
    };
    let user_points = [source(of_user, ""), source(watched, "")];
    let kernel_points = [source(Point::new(1), SYMBOL)];
    let bad_points = [source(Point::new(1), "there_is_no_such_function")];
    let program = |kind, name, points| ProgramSource {
        header: Header {
            globals: 1,
            ..Header::new(kind)
        },
        name,
        points,
    };
    let programs = [
        program(ModuleKind::User, &path[..], &user_points[..]),
        program(ModuleKind::Kernel, "good", &kernel_points),
        program(ModuleKind::Kernel, "bad", &bad_points),
    ];
    let mut bytes = Vec::new();
    encode(&mut bytes, SetHeader::default(), &programs).unwrap();
    let mut good = Vec::new();
    encode(&mut good, SetHeader::default(), &programs[..2]).unwrap();

    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                user::target(1, std::ptr::null());
                WORD.store(1, Relaxed);
                call(1);
            }
        });
        let result = std::panic::catch_unwind(|| {
            let control = Control::open();
            for _ in 0..10 {
                let error = control.write(&bytes).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
                let state = control.state();
                assert!(state.error.is_some() && state.programs.is_empty());
                assert_eq!(state.globals[0], 0);
            }
            // The points of a set that can be loaded do run.
            control.write(&good).unwrap();
            thread::sleep(Duration::from_millis(300));
            let state = state();
            for point in &state.points {
                assert_ne!(point["hits"], "0", "{point:?}");
                assert!(crate::control::number(point, "hits") < 1 << 40, "{point:?}");
            }
            assert_eq!(state.points.len(), 3);
            assert!(state.globals[0] > 2);
        });
        is_over.store(true, Relaxed);
        result.unwrap();
    });
}

/// Checks that an unload waits once for the runs at all points of a program, not once for each
/// point.
fn many_go() {
    const MANY: usize = 1000;
    let code = [Insn::new(Op::Exit)];
    let path = user::path();
    let of_user = user::program(&path, &code).point;
    for (kind, name, point, symbol) in [
        (ModuleKind::User, &path[..], of_user, ""),
        (ModuleKind::Kernel, "vmlinux", Point::new(1), SYMBOL),
    ] {
        let removal = |count: usize| {
            let point = PointSource {
                point,
                symbol,
                code: &code,
            };
            let program = ProgramSource {
                header: Header::new(kind),
                name,
                points: &vec![point; count],
            };
            let mut bytes = Vec::new();
            encode(&mut bytes, SetHeader::default(), &[program]).unwrap();
            let control = Control::open();
            control.write(&bytes).unwrap();
            let start = Instant::now();
            control.write(b"remove *").unwrap();
            start.elapsed()
        };
        let one = (0..5).map(|_| removal(1)).min().unwrap();
        let many = removal(MANY);
        println!("# {name}: {one:?} for one point, {many:?} for {MANY}");
        assert!(many < one * (MANY as u32 / 4) + Duration::from_millis(500));
    }
}
