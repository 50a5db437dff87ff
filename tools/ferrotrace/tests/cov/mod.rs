// SPDX-License-Identifier: GPL-2.0

//! Coverage, with programs in place of the kernel. Their counters pass through the dump file and
//! must equal those in the compiler's own files.
//!
//!
//! All installed versions of GCC and LLVM take part; GCC itself is required. Tests that need lcov,
//! genhtml or gcovr are skipped without them.

mod damaged;
mod files;
mod fleet;
mod inputs;
mod kernel;
mod patch;
mod readers;
mod reports;

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::coverage::Build;
use crate::common::coverage::counters;
use crate::common::ferrotrace;
use crate::common::stdout;
use crate::common::succeed;

fn cov(args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.arg("cov").args(args);
    command
}

fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

/// Returns true if a program is installed; prints a message otherwise.
fn have(program: &str) -> bool {
    let have = Command::new(program).arg("--version").output().is_ok();
    if !have {
        eprintln!("skipped: there is no {program}");
    }
    have
}

/// Returns the path of an object's file below the output directory of a dump.
fn below(dir: &Path, object: &Path) -> PathBuf {
    dir.join(object.strip_prefix("/").unwrap())
}

fn report(args: &[&str], dumps: &[&Path]) -> Value {
    let mut command = cov(&["report", "--json", "--functions"]);
    let output = succeed(command.args(args).args(dumps));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn tracefile(dumps: &[&Path]) -> String {
    stdout(&succeed(cov(&["report", "--lcov", "-"]).args(dumps)))
}

fn work_counters(build: &Build) -> usize {
    counters(&fs::read(&build.objects[1]).unwrap())
        .concat()
        .len()
}
