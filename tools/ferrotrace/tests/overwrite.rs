// SPDX-License-Identifier: GPL-2.0

//! Commands overwrite a non-empty file only with `--force`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::coverage::dump;
use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::succeed;

/// Checks that `command` writes `output` once, then refuses to, and overwrites it with `force`.
fn written_once(output: &Path, force: &str, command: impl Fn() -> Command) {
    succeed(&mut command());
    let first = fs::read(output).unwrap();
    assert!(!first.is_empty());
    fs::write(output, "precious").unwrap();
    let message = fail(&mut command());
    let name = output.file_name().unwrap().to_str().unwrap();
    let refused = format!("{name}: exists and is not empty (--force writes over it)");
    assert!(message.contains(&refused), "{message}");
    assert_eq!(fs::read(output).unwrap(), b"precious");
    succeed(command().arg(force));
    assert_eq!(fs::read(output).unwrap(), first);
}

#[test]
fn dumps_of_counters() {
    let dir = TempDir::new().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::write(&from, dump(Path::new("/b/a.gcda"), &[1, 2, 3])).unwrap();
    written_once(&to, "-f", || {
        let mut command = ferrotrace();
        command.args(["cov", "dump", "--from"]).arg(&from);
        command.arg("-o").arg(&to);
        command
    });
    assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap());
}

#[test]
fn built_programs() {
    let dir = TempDir::new().unwrap();
    let program = "name = vmlinux\naddress = 0xffffffff81000000\nopcode = 0x55\nexit\n";
    fs::write(dir.path().join("a.dp"), program).unwrap();
    symlink(env!("CARGO_BIN_EXE_ferrotrace"), dir.path().join("dprobes")).unwrap();
    let command = |name: &Path, args: &[&str]| {
        let mut command = Command::new(name);
        command.args(args).current_dir(dir.path());
        command
    };
    let tool = ferrotrace();
    let tool = Path::new(tool.get_program());
    let built = dir.path().join("built");
    written_once(&built, "--force", || {
        command(tool, &["dprobes", "build", "a.dp", "-o", "built"])
    });
    // The default name without -o, and version 5's command.
    written_once(&dir.path().join("a.dp.ppdf"), "--force", || {
        command(&dir.path().join("dprobes"), &["-b", "a.dp"])
    });
}
