// SPDX-License-Identifier: GPL-2.0

//! The running kernel: dumps, reports and resets of its counters.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::below;
use super::cov;
use super::has;
use super::tracefile;
use crate::common::coverage::Build;
use crate::common::coverage::Compiler;
use crate::common::fail;
use crate::common::stdout;
use crate::common::succeed;

#[test]
fn the_running_kernel() {
    let build = Build::new(&Compiler::system());
    build.run(&["1", "8"]);
    let path = build.save_dump("saved.dump");
    let dir = build.debugfs();
    let live = |args: &[&str]| {
        let mut command = cov(args);
        command.arg("--dir").arg(&dir);
        command
    };
    let saved = build.dir.join("live.dump");
    succeed(live(&["dump"]).arg("-o").arg(&saved));
    assert_eq!(fs::read(&saved).unwrap(), build.dump());
    assert_eq!(succeed(&mut live(&["dump"])).stdout, build.dump());
    let one = succeed(&mut live(&["dump", "--only", "sub/work.c"])).stdout;
    assert_eq!(build.dump()[build.dump().len() - one.len()..], one);
    assert_eq!(
        stdout(&succeed(&mut live(&["report", "--lcov", "-"]))),
        tracefile(&[&path])
    );
    has(
        &stdout(&succeed(live(&["report"]).arg("--since").arg(&path))),
        &["nothing was executed of 3 other files"],
    );

    // The build directory was rebuilt after the dump.
    let object = below(&dir, &build.objects[0]);
    let mut other = fs::read(&object).unwrap();
    other[8] ^= 1;
    fs::write(&object, &other).unwrap();
    has(
        &fail(&mut live(&["report"])),
        &[
            "1 of 2 objects",
            "main.gcno is of another build than the running kernel",
        ],
    );
    has(
        &stdout(&succeed(&mut live(&["report", "--keep-going"]))),
        &["1 objects"],
    );
}

#[test]
fn resets() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let dir = build.debugfs();
    let reset = |args: &[&str]| {
        let mut command = cov(&["reset", "--dir"]);
        command.arg(&dir).args(args);
        command
    };
    let start = |path: &Path| fs::read(path).unwrap()[0];
    let [main, work] = [0, 1].map(|at| below(&dir, &build.objects[at]));
    succeed(&mut reset(&["sub"]));
    assert_eq!((start(&work), start(&main)), (b'0', b'a'));
    has(
        &fail(&mut reset(&["none"])),
        &["no object is called none", "main.gcda"],
    );
    assert_ne!(start(&dir.join("vmlinux")), b'0');
    fs::write(build.dir.join("my-mod.mod"), "main.o\n").unwrap();
    succeed(&mut reset(&["my_mod"]));
    assert_eq!(start(&main), b'0');
    succeed(&mut reset(&[]));
    assert_eq!(start(&dir.join("vmlinux")), b'0');
    // The kernel's own gcov.
    fs::remove_file(dir.join("vmlinux")).unwrap();
    fs::write(dir.join("reset"), "").unwrap();
    succeed(&mut reset(&[]));
    assert_eq!(start(&dir.join("reset")), b'0');
    let mut command = cov(&["report", "--dir"]);
    has(
        &fail(command.arg(&dir)),
        &["no file vmlinux", "the kernel's own gcov"],
    );
}

#[test]
fn no_counters() {
    let root = TempDir::new().unwrap();
    let gcov = root.path().join("gcov");
    let mut command = cov(&["report", "--dir"]);
    has(&fail(command.arg(&gcov)), &["is debugfs mounted?"]);
    fs::create_dir(root.path().join("other")).unwrap();
    let mut command = cov(&["reset", "--debugfs"]);
    has(
        &fail(command.arg(&gcov)),
        &["does not count what it executes", "CONFIG_GCOV_KERNEL"],
    );
    fs::create_dir(&gcov).unwrap();
    fs::write(gcov.join("vmlinux"), "").unwrap();
    let mut command = cov(&["dump", "--dir"]);
    has(&fail(command.arg(&gcov)), &["no counters", "GCOV_PROFILE"]);
    has(
        &fail(&mut cov(&["report", "/nowhere/dump"])),
        &["/nowhere/dump: cannot be opened"],
    );
    has(&fail(&mut cov(&["report", "/"])), &["directory"]);
}
