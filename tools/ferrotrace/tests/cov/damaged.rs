// SPDX-License-Identifier: GPL-2.0

//! Dumps that are damaged, or do not belong to the present objects.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::cov;
use super::has;
use super::tracefile;
use crate::common::coverage::Build;
use crate::common::coverage::Compiler;
use crate::common::coverage::counters;
use crate::common::coverage::dump;
use crate::common::exists;
use crate::common::fail;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

#[test]
fn a_dump_that_ends_too_early() {
    let dir = TempDir::new().unwrap();
    let objects = [
        dump(Path::new("/b/a.gcda"), &[1, 2, 3]),
        dump(Path::new("/b/eight.gcda"), &[]),
        dump(Path::new("/b/c.gcda"), &[u64::MAX]),
    ];
    let ends = [objects[0].len(), objects[0].len() + objects[1].len()];
    let whole = objects.concat();
    let path = dir.path().join("dump");
    for len in 0..=whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let mut command = cov(&["dump", "--from"]);
        command.arg(&path);
        if ends.contains(&len) || len == whole.len() {
            assert_eq!(succeed(&mut command).stdout, whole[..len]);
        } else if len == 0 {
            has(&fail(&mut command), &["no counters"]);
        } else {
            has(
                &fail(&mut command),
                &["not a dump of counters", "object ", "the file ends within"],
            );
        }
    }
}

/// Counters that were read while they changed, or damaged.
#[test]
fn negative_counters() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let mut all: Vec<Vec<u64>> = build
        .objects
        .iter()
        .map(|object| counters(&fs::read(object).unwrap()).concat())
        .collect();
    let before = dump_of(&build, &all);
    assert!(!stderr(&succeed(cov(&["report"]).arg(&before))).contains("less than 0"));
    for counter in all.last_mut().unwrap() {
        *counter = 5u64.wrapping_neg();
    }
    let damaged = dump_of(&build, &all);
    let output = succeed(cov(&["report", "--json"]).arg(&damaged));
    let parts = ["work.gcda", "counts are less than 0", "may be wrong"];
    has(&stderr(&output), &parts);
    has(&stdout(&output), &parts);
}

fn dump_of(build: &Build, counters: &[Vec<u64>]) -> std::path::PathBuf {
    let parts = build.objects.iter().zip(counters);
    let parts: Vec<_> = parts
        .map(|(object, counters)| dump(object, counters))
        .collect();
    let path = build.dir.join("damaged.dump");
    fs::write(&path, parts.concat()).unwrap();
    path
}

/// A memory limit makes an allocation of a false length fail.
#[test]
fn lengths_that_are_lies() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("dump");
    let name = dump(Path::new("/b/a.gcda"), &[]);
    let name = &name[..name.len() - 8];
    let number = |number: u64| number.to_ne_bytes();
    for (bytes, part) in [
        (
            [name, &number(u64::MAX)].concat(),
            "18446744073709551615 counters",
        ),
        ([name, &number(1 << 60)].concat(), "counters"),
        (
            [name, &number(1 << 50), &[0; 64]].concat(),
            "the file ends within the counters",
        ),
        (
            number(u64::MAX).to_vec(),
            "a file name of 18446744073709551615 bytes",
        ),
        (
            number(1 << 40).to_vec(),
            "a file name of 1099511627776 bytes",
        ),
        (
            number(9).iter().rev().copied().collect(),
            "the other byte order",
        ),
        (b"\x7fELF is something else".to_vec(), "a file name of"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -v 500000; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_ferrotrace"),
        ]);
        command.args(["cov", "report"]).arg(&path);
        has(&fail(&mut command), &["not a dump of counters", part]);
    }
    // The command stops reading endless input that is no dump.
    has(
        &fail(&mut cov(&["report", "/dev/zero"])),
        &["a file name of 0 bytes"],
    );
}

#[test]
fn counters_that_do_not_fit() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.dir.join("dump");
    let out = build.dir.join("out");
    let all = counters(&fs::read(&build.objects[0]).unwrap()).concat();
    let more = [&all[..], &[0]].concat();
    for wrong in [&all[1..], &[], &more] {
        fs::write(&path, dump(&build.objects[0], wrong)).unwrap();
        let expected = format!(
            "main.gcda: {} counters, but its .gcno file describes {} in ",
            wrong.len(),
            all.len()
        );
        has(
            &fail(cov(&["report"]).arg(&path)),
            &["1 of 1 objects", &expected, "another build"],
        );
        let mut export = cov(&["dump", "--from"]);
        export.arg(&path).arg("--gcda").arg(&out);
        has(&fail(&mut export), &[&expected]);
        assert!(!exists(&out));
    }
}

#[test]
fn objects_that_are_left_out() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let alone = tracefile(&[&path]);
    let mut bytes = build.dump();
    bytes.extend(dump(Path::new("/nowhere/a.gcda"), &[1]));
    bytes.extend(dump(Path::new("/nowhere/a.odd"), &[1]));
    let text = build.dir.join("text.gcda");
    fs::write(text.with_extension("gcno"), "text").unwrap();
    bytes.extend(dump(&text, &[1]));
    fs::write(&path, bytes).unwrap();
    let message = fail(cov(&["report"]).arg(&path));
    has(
        &message,
        &[
            "3 of 5 objects cannot be used (--keep-going",
            "1 without a .gcno file: /nowhere/a.gcda; looked for /nowhere/a.gcno (--objdir",
            "/nowhere/a.odd: not the name of a .gcda file",
            "text.gcno is not a .gcno file",
        ],
    );
    let output = succeed(cov(&["report", "--keep-going", "--lcov", "-"]).arg(&path));
    assert_eq!(stdout(&output), alone);
    has(
        &stderr(&output),
        &["warning: 3 of 5 objects are left out", "/nowhere/a.gcda"],
    );
    // No object is left to report.
    fs::write(&path, dump(Path::new("/nowhere/a.gcda"), &[1])).unwrap();
    has(
        &fail(cov(&["report", "--keep-going"]).arg(&path)),
        &["1 of 1 objects", "/nowhere/a.gcno"],
    );
}
