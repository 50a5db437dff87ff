// SPDX-License-Identifier: GPL-2.0

//! Coverage, with programs in place of the kernel: what they count goes through the one file, and has to come out as the
//! compiler's own files say.
//!
//! All versions of GCC and LLVM that are found take part; gcc itself has to be there. What needs lcov, genhtml or gcovr is
//! skipped without them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use common::coverage::Build;
use common::coverage::Compiler;
use common::coverage::counters;
use common::coverage::dump;
use common::exists;
use common::fail;
use common::ferrotrace;
use common::stderr;
use common::stdout;
use common::succeed;

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

/// Whether a program is there. Says so if it is not.
fn have(program: &str) -> bool {
    let have = Command::new(program).arg("--version").output().is_ok();
    if !have {
        eprintln!("skipped: there is no {program}");
    }
    have
}

/// A file below the directory into which the files of a dump were written.
fn below(dir: &Path, object: &Path) -> PathBuf {
    dir.join(object.strip_prefix("/").unwrap())
}

/// What a compiler's own program says of an object. How often the program ran and the files' names are left out.
fn gcov(build: &Build, gcda: &Path) -> String {
    let compiler = &build.compiler;
    let mut command = Command::new(&compiler.gcov);
    if compiler.is_llvm() {
        command.arg("gcov");
    }
    command.args(["-b", "-c", "-t"]).arg(gcda);
    let output = succeed(command.current_dir(&build.dir));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.contains("-:    0:"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_compilers_own_files() {
    for compiler in Compiler::all() {
        let build = Build::new(&compiler);
        build.run(&["1", "8", "2"]);
        build.run(&["3"]);
        let dump = build.save_dump("saved.dump");
        let out = build.dir.join("out");
        succeed(cov(&["dump", "--gcda"]).arg(&out).arg("--from").arg(&dump));
        for object in &build.objects {
            let (own, ours) = (
                fs::read(object).unwrap(),
                fs::read(below(&out, object)).unwrap(),
            );
            assert!(!counters(&own).is_empty());
            assert_eq!(counters(&own), counters(&ours), "{compiler:?} {object:?}");
            let text = gcov(&build, object);
            assert!(
                text.contains("#####") && text.contains("work") || text.contains("many"),
                "{text}"
            );
            assert_eq!(text, gcov(&build, &below(&out, object)), "{compiler:?}");
        }
        assert!(!exists(&out.join("saved.dump")));
        println!("compared with {}", compiler.name);
    }
}

/// The lines, functions and branches of a tracefile, for one file: `DA:`, `FN:`, `FNDA:` and `BRDA:` records.
fn records(tracefile: &str, file: &str) -> BTreeSet<String> {
    let mut lines = tracefile
        .lines()
        .skip_while(|line| *line != format!("SF:{file}"));
    let of_file = lines.by_ref().take_while(|line| *line != "end_of_record");
    let wanted = of_file.filter(|line| {
        ["DA:", "FN:", "FNDA:", "BRDA:"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    wanted.map(str::to_owned).collect()
}

/// lcov's own capture of the compiler's files, and our tracefile from the dump, have the same records.
#[test]
fn the_tracefile_that_lcov_makes() {
    if !have("lcov") {
        return;
    }
    let build = Build::new(&Compiler::system());
    build.run(&["1", "8", "2"]);
    let dump = build.save_dump("saved.dump");
    let [theirs, ours] = ["theirs.info", "ours.info"].map(|name| build.dir.join(name));
    let mut lcov = Command::new("lcov");
    lcov.args(["--quiet", "--capture", "--rc", "lcov_branch_coverage=1"]);
    lcov.arg("--output-file").arg(&theirs);
    lcov.arg("--directory").arg(&build.dir);
    succeed(&mut lcov);
    succeed(cov(&["report", "--lcov"]).arg(&ours).arg(&dump));
    let message = fail(cov(&["report", "--lcov"]).arg(&ours).arg(&dump));
    has(
        &message,
        &["exists and is not empty (--force writes over it)"],
    );
    succeed(cov(&["report", "-f", "--lcov"]).arg(&ours).arg(&dump));
    let [text, own] = [&theirs, &ours].map(|path| fs::read_to_string(path).unwrap());
    for file in ["main.c", "sub/work.c", "shared.h"] {
        let file = build.dir.join(file).display().to_string();
        let expected = records(&text, &file);
        assert!(expected.len() > 2, "{text}");
        assert_eq!(records(&own, &file), expected, "{file}");
    }
    let summary = |path: &Path| {
        let mut lcov = Command::new("lcov");
        lcov.args(["--rc", "lcov_branch_coverage=1"]);
        let output = succeed(lcov.arg("--summary").arg(path));
        let text = stdout(&output) + &stderr(&output);
        let lines = text.lines().filter(|line| line.contains("......:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(summary(&theirs), summary(&ours));
    assert!(summary(&ours)[0].contains("lines"), "{:?}", summary(&ours));
    assert!(own.contains("BRDA:"), "{own}");

    if have("genhtml") {
        let html = build.dir.join("html");
        let output = succeed(
            Command::new("genhtml")
                .arg("--output-directory")
                .arg(&html)
                .arg(&ours),
        );
        has(&stdout(&output), &["lines"]);
        assert!(exists(&html.join("index.html")));
    }
}

/// gcovr finds the files that were written, and says the same of them.
#[test]
fn the_report_that_gcovr_makes() {
    if !have("gcovr") {
        return;
    }
    let build = Build::new(&Compiler::system());
    build.run(&["1", "8", "2"]);
    let dump = build.save_dump("saved.dump");
    let out = TempDir::new().unwrap();
    let out = out.path();
    succeed(
        cov(&["dump", "--force", "--gcda"])
            .arg(out)
            .arg("--from")
            .arg(&dump),
    );
    let lines = |dir: &Path| {
        let mut gcovr = Command::new("gcovr");
        gcovr
            .args(["--json-summary", "-", "--root"])
            .arg(&build.dir)
            .arg(dir);
        let summary: Value = serde_json::from_slice(&succeed(&mut gcovr).stdout).unwrap();
        let files = summary["files"].as_array().unwrap().clone();
        assert_eq!(files.len(), 3, "{summary}");
        files
    };
    assert_eq!(lines(&build.dir), lines(out));
}

fn report(args: &[&str], dumps: &[&Path]) -> Value {
    let mut command = cov(&["report", "--json", "--functions"]);
    let output = succeed(command.args(args).args(dumps));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn tracefile(dumps: &[&Path]) -> String {
    stdout(&succeed(cov(&["report", "--lcov", "-"]).args(dumps)))
}

#[test]
fn lines_and_functions() {
    for compiler in Compiler::all() {
        let build = Build::new(&compiler);
        build.run(&["1", "8", "2"]);
        let dump = build.save_dump("saved.dump");
        let document = report(&["--gcov", &compiler.gcov], &[&dump]);
        assert_eq!(document["objects"], 2);
        let file = |name: &str| {
            let path = build.dir.join(name).display().to_string();
            let files = document["files"].as_array().unwrap();
            let found = files.iter().find(|file| file["file"] == path.as_str());
            found
                .unwrap_or_else(|| panic!("{} {name}: {document}", compiler.name))
                .clone()
        };
        let function = |name: &str, function: &str| {
            let file = file(name);
            let functions = file["function_list"].as_array().unwrap();
            functions
                .iter()
                .find(|other| other["name"] == function)
                .unwrap()["calls"]
                .clone()
        };
        assert_eq!(function("sub/work.c", "work"), 3, "{}", compiler.name);
        assert_eq!(function("sub/work.c", "idle"), 0);
        assert_eq!(function("main.c", "main"), 1);
        let header = file("shared.h");
        assert_eq!(header["lines"]["hit"], header["lines"]["total"]);
        // The program is chosen by the version of the notes, too.
        assert_eq!(report(&[], &[&dump]), document, "{}", compiler.name);
    }
}

#[test]
fn what_a_test_executed() {
    let build = Build::new(&Compiler::system());
    build.run(&["8"]);
    let before = build.save_dump("before.dump");
    build.run(&["1", "2"]);
    let after = build.save_dump("after.dump");
    build.reset();
    build.run(&["1", "2"]);
    let alone = build.save_dump("alone.dump");
    let expected = tracefile(&[&alone]);
    assert_ne!(tracefile(&[&after]), expected);
    assert_eq!(tracefile(&[&before, &after]), expected);
    let mut since = cov(&["report", "--lcov", "-", "--since"]);
    assert_eq!(stdout(&succeed(since.arg(&before).arg(&after))), expected);

    // Counters that were reset between.
    let output = succeed(cov(&["report", "--lcov", "-"]).arg(&after).arg(&alone));
    assert_eq!(stdout(&output), expected);
    has(
        &stderr(&output),
        &["warning", "main.gcda", "became smaller", "reset"],
    );

    // An object in only one of them.
    let bytes = build.dump();
    let first = bytes.len() - dump(&build.objects[1], &[]).len() - 8 * work_counters(&build);
    let part = build.dir.join("part.dump");
    fs::write(&part, &bytes[..first]).unwrap();
    let output = succeed(cov(&["report"]).arg(&part).arg(&alone));
    has(&stderr(&output), &["work.gcda: only in the second dump"]);
    has(
        &stdout(&output),
        &["sub/work.c", "nothing was executed of 2 other files"],
    );
    let output = succeed(cov(&["report"]).arg(&alone).arg(&part));
    has(&stderr(&output), &["work.gcda: only in the first dump"]);
    has(
        &fail(cov(&["report", "--since"]).args([&before, &before, &after])),
        &["--since"],
    );
    has(
        &fail(&mut cov(&["report", "-", "-"])),
        &["standard input is one dump"],
    );
}

fn work_counters(build: &Build) -> usize {
    counters(&fs::read(&build.objects[1]).unwrap())
        .concat()
        .len()
}

#[test]
fn tables() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let dump = build.save_dump("saved.dump");
    let table = |args: &[&str]| stdout(&succeed(cov(&["report"]).args(args).arg(&dump)));
    let text = table(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("below {}:", build.dir.display()));
    has(lines[1], &["lines", "functions", "file"]);
    // The least is executed of shared.h or work.c, depending on the compiler; all of nothing.
    let percent = |line: &str| {
        let cell = line.split_whitespace().nth(1).unwrap();
        cell.trim_end_matches('%').parse::<f64>().unwrap()
    };
    assert!(percent(lines[2]) <= percent(lines[3]) && percent(lines[3]) <= percent(lines[4]));
    has(lines[5], &["3 files, 2 objects"]);
    let text = table(&["--functions", "--top", "1"]);
    has(&text, &["idle (sub/work.c:", "more functions"]);
    let only = table(&["--only", "sub"]);
    assert!(
        only.contains("work.c") && !only.contains("main.c"),
        "{only}"
    );
    has(&only, &["1 objects"]);
    let mut command = cov(&["report", "-"]);
    command.stdin(File::open(&dump).unwrap());
    assert_eq!(stdout(&succeed(&mut command)), table(&[]));
}

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

/// With little memory, so that a lie about a length cannot be believed.
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
    // Endless input that is no dump is not read up to its end.
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
    // Nothing is left to go on with.
    fs::write(&path, dump(Path::new("/nowhere/a.gcda"), &[1])).unwrap();
    has(
        &fail(cov(&["report", "--keep-going"]).arg(&path)),
        &["1 of 1 objects", "/nowhere/a.gcno"],
    );
}

#[test]
fn a_build_that_was_moved() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let before = tracefile(&[&path]);
    let moved = build.dir.join("moved");
    fs::create_dir_all(moved.join("sub")).unwrap();
    for file in ["main.gcno", "sub/work.gcno"] {
        fs::rename(build.dir.join(file), moved.join(file)).unwrap();
    }
    has(
        &fail(cov(&["report"]).arg(&path)),
        &["2 of 2 objects", "2 without a .gcno file"],
    );
    let mut command = cov(&["report", "--lcov", "-", "--objdir"]);
    assert_eq!(stdout(&succeed(command.arg(&moved).arg(&path))), before);
    let mut command = cov(&["report", "--gcno", "/nowhere"]);
    has(&fail(command.arg(&path)), &["/nowhere/", "looked for"]);
}

#[test]
fn odd_names() {
    for name in [&b"a b; $(c)\n'\""[..], b"caf\xe9 \xff", b"-x"] {
        let build = Build::below(&Compiler::system(), OsStr::from_bytes(name));
        build.run(&["1", "8"]);
        let path = build.save_dump("saved.dump");
        let out = build.dir.join("out");
        succeed(cov(&["dump", "--from"]).arg(&path).arg("--gcda").arg(&out));
        for object in &build.objects {
            let (own, ours) = (
                fs::read(object).unwrap(),
                fs::read(below(&out, object)).unwrap(),
            );
            assert_eq!(counters(&own), counters(&ours));
        }
        let document = report(&[], &[&path]);
        assert_eq!(document["files"].as_array().unwrap().len(), 3);
        assert!(
            document["lines"]["hit"].as_u64().unwrap() > 10,
            "{document}"
        );
        assert_eq!(tracefile(&[&path]).matches("end_of_record").count(), 3);
    }
}

/// A module that is built outside of the tree may be called so.
#[test]
fn names_that_lead_elsewhere() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let object = build.dir.join("sub/../main.gcda");
    let all = counters(&fs::read(&build.objects[0]).unwrap()).concat();
    let path = build.dir.join("dump");
    let out = build.dir.join("out/out");
    // A name that is relative belongs to no directory that is known: it is that of the command.
    let above =
        Path::new("../../../../../../../../../../..").join(object.strip_prefix("/").unwrap());
    for name in [object, above] {
        fs::write(&path, dump(&name, &all)).unwrap();
        let mut export = cov(&["dump", "--only", "main.c", "--from"]);
        export
            .current_dir("/tmp")
            .arg(&path)
            .arg("--force")
            .arg("--gcda")
            .arg(&out);
        succeed(&mut export);
        assert!(exists(&below(&out, &build.objects[0])));
        fs::remove_dir_all(&out).unwrap();
    }
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn an_output_that_is_taken() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let out = build.dir.join("out");
    let export = |force: bool| {
        let mut export = cov(&["dump", "--from"]);
        export.arg(&path).arg("--gcda").arg(&out);
        export.args(force.then_some("--force"));
        export
    };
    succeed(&mut export(false));
    has(&fail(&mut export(false)), &["not empty", "--force"]);
    succeed(&mut export(true));
    has(
        &fail(cov(&["dump", "-o", "/nowhere/x", "--from"]).arg(&path)),
        &["/nowhere/x: cannot be created"],
    );
    has(
        &fail(cov(&["report", "--lcov", "/dev/full"]).arg(&path)),
        &["/dev/full: cannot be written"],
    );
}

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

    // The build directory was built again since.
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

#[test]
fn programs() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let with = |program: &str| {
        let mut command = cov(&["report", "--gcov", program]);
        command.arg(&path);
        command
    };
    has(
        &fail(&mut with("/nowhere/gcov")),
        &["/nowhere/gcov: cannot be run"],
    );
    has(&fail(&mut with("true")), &["neither gcov nor llvm-cov"]);
    let script = |name: &str, text: &str| {
        let path = build.dir.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        succeed(Command::new("chmod").arg("+x").arg(&path));
        path.display().to_string()
    };
    let old = script("old", "echo 'gcov (GCC) 8.3.0'");
    has(&fail(&mut with(&old)), &["is of GCC 8", "GCC 9"]);
    let eleven = script("eleven", "echo 'gcov (GCC) 11.3.0'");
    has(
        &fail(&mut with(&eleven)),
        &["no program reads the .gcno files of GCC", "is of GCC 11"],
    );
    let silent = script(
        "silent",
        "[ \"$1\" != --version ] || echo 'gcov (GCC) 99.1.0'",
    );
    has(
        &fail(&mut with(&silent)),
        &["2 of 2 objects", "silent: printed nothing"],
    );
    let fails = script(
        "fails",
        "[ \"$1\" = --version ] && echo 'gcov (GCC) 99.1.0' && exit; echo 'no luck' >&2; exit 3",
    );
    has(
        &fail(&mut with(&fails)),
        &["fails: exit status: 3 (no luck)"],
    );
    let stamp = script(
        "stamp",
        "[ \"$1\" = --version ] && echo 'gcov (GCC) 99.1.0' && exit; echo 'x.gcda:stamp mismatch with notes file' >&2; echo '{\"files\": []}'",
    );
    has(
        &fail(&mut with(&stamp)),
        &["stamp mismatch with notes file"],
    );
    // None at all.
    let empty = build.dir.join("empty");
    fs::create_dir(&empty).unwrap();
    let mut command = cov(&["report"]);
    command.arg(&path).env("PATH", &empty);
    has(
        &fail(&mut command),
        &[
            "no program reads the .gcno files of GCC",
            "there is no gcov-",
            "--gcov PROGRAM",
        ],
    );
}

/// A kernel that is built in a directory of its own names its sources relative to the source tree.
#[test]
fn sources_in_another_tree() {
    let build = Build::new(&Compiler::system());
    build.run(&["1"]);
    let path = build.save_dump("saved.dump");
    let tree = build.dir.join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    for file in ["main.c", "sub/work.c"] {
        fs::rename(build.dir.join(file), tree.join(file)).unwrap();
    }
    let expected = tree.join("main.c").display().to_string();
    let mut command = cov(&["report", "--lcov", "-", "--srcdir"]);
    has(
        &stdout(&succeed(command.arg(&tree).arg(&path))),
        &[&format!("SF:{expected}\n")],
    );
    symlink(&tree, build.dir.join("source")).unwrap();
    let text = tracefile(&[&path]);
    has(&text, &[&format!("SF:{expected}\n")]);
    has(
        &text,
        &[&format!("SF:{}\n", build.dir.join("shared.h").display())],
    );
}
