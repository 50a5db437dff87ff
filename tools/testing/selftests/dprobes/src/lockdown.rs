// SPDX-License-Identifier: GPL-2.0

//! Refusals of the engine itself under lockdown: a file that was open before stays open.

use std::fs::OpenOptions;
use std::panic::catch_unwind;
use std::process::Command;
use std::sync::OnceLock;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::Control;
use crate::control::DIR;
use crate::testlib::*;

pub const CASES: &[Case] = &[
    ("lockdown.integrity", integrity),
    ("lockdown.confidentiality", confidentiality),
];

const LEVEL: &str = "/sys/kernel/security/lockdown";

/// Runs a case, where the kernel has lockdown.
pub fn case(number: usize, name: &str, run: fn()) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-t", "securityfs", "securityfs", "/sys/kernel/security"]);
    // The file system may be mounted already.
    let _ = mount.stderr(std::process::Stdio::null()).status();
    if !std::fs::exists(LEVEL).unwrap() {
        println!("ok {number} {name} # SKIP no lockdown");
        return true;
    }
    let is_good = catch_unwind(run).is_ok();
    println!("{} {number} {name}", if is_good { "ok" } else { "not ok" });
    is_good
}

/// The file, opened before.
fn control() -> &'static Control {
    static CONTROL: OnceLock<Control> = OnceLock::new();
    CONTROL.get_or_init(|| {
        crate::control::remove_all();
        Control::open()
    })
}

fn counts(name: &'static str) -> Program<'static> {
    Program {
        name,
        ..Program::new(&in_this_process(&[
            Insn::with(Op::IncLv, 0),
            Insn::new(Op::Exit),
        ]))
    }
}

/// Writes a set, which is refused.
fn refused(program: &Program<'_>, why: &str) {
    let error = control().write(&program.bytes()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    let text = control().state().error.unwrap();
    assert!(text.contains(why), "{text}");
}

/// Checks that the file can no longer be opened.
fn is_closed() {
    let error = OpenOptions::new()
        .write(true)
        .open(format!("{DIR}/control"));
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EPERM));
}

/// Checks that programs that write cannot be loaded, and programs that read can.
fn integrity() {
    let before = counts("before");
    control().write(&before.bytes()).unwrap();
    std::fs::write(LEVEL, "integrity").unwrap();
    is_closed();
    refused(
        &counts("writes").with_writes(),
        "UNSAFE_WRITES is not permitted",
    );
    control().write(&counts("reads").bytes()).unwrap();
    call(2);
    let state = control().state();
    assert_eq!(
        (state.programs.len(), state.locals[0][0], state.locals[1][0]),
        (2, 2, 2)
    );
}

/// Checks that nothing can be loaded. Loaded programs stay, and can be removed.
fn confidentiality() {
    std::fs::write(LEVEL, "confidentiality").unwrap();
    is_closed();
    refused(&counts("more"), "the kernel is locked down");
    refused(
        &counts("more").with_writes(),
        "UNSAFE_WRITES is not permitted",
    );
    call(1);
    // The file shows the state at the first read after a write.
    control().write(b"remove reads").unwrap();
    let state = control().state();
    assert_eq!((state.programs.len(), state.locals[0][0]), (1, 3));
    control().write(b"remove *").unwrap();
    assert!(control().state().programs.is_empty());
}
