// SPDX-License-Identifier: GPL-2.0

//! Reports: lines, functions, coverage of one test, and programs that show them.

use std::fs;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::cov;
use super::has;
use super::report;
use super::tracefile;
use super::work_counters;
use crate::common::coverage::Build;
use crate::common::coverage::Compiler;
use crate::common::coverage::dump;
use crate::common::fail;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

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

/// A header with two functions of one name, one for each object.
#[test]
fn functions_of_one_name() {
    let build = Build::new(&Compiler::system());
    let main = build.dir.join("main.c");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, format!("#define MAIN\n{text}")).unwrap();
    let shared =
        "static __attribute__((noinline)) int shared(int n)\n{ return n > 4 ? n * 2 : n; }";
    let header = format!("#ifdef MAIN\n{shared}\n#else\n{shared}\n#endif\n");
    fs::write(build.dir.join("shared.h"), header).unwrap();
    build.make();
    // With this argument work.c does not call its own.
    build.run(&["1"]);
    let dump = build.save_dump("saved.dump");
    let document = report(&[], &[&dump]);
    let path = build.dir.join("shared.h").display().to_string();
    let files = document["files"].as_array().unwrap();
    let header = files.iter().find(|file| file["file"] == path.as_str());
    let functions = header.unwrap()["function_list"].as_array().unwrap();
    let calls: Vec<_> = functions
        .iter()
        .map(|function| (function["line"].as_u64(), function["calls"].as_u64()))
        .collect();
    assert_eq!(calls, [(Some(2), Some(1)), (Some(5), Some(0))]);
    has(
        &tracefile(&[&dump]),
        &["FN:2,shared:2\n", "FNDA:1,shared:2\n", "FNDA:0,shared:5\n"],
    );
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

    // An object that only one dump has.
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
    // The table is sorted by percentage. The compiler decides which of shared.h and work.c has
    // less.
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

/// A kernel with a separate build directory names its sources relative to the source tree.
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
    // No object at all.
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
