// SPDX-License-Identifier: GPL-2.0

//! Output that other programs read: gcov of each compiler, lcov, gcovr.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::below;
use super::cov;
use super::has;
use super::have;
use crate::common::coverage::Build;
use crate::common::coverage::Compiler;
use crate::common::coverage::counters;
use crate::common::exists;
use crate::common::fail;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

/// Returns the report of a compiler's own gcov, without its header lines (run counts, file names).
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

/// Returns the `DA:`, `FN:`, `FNDA:` and `BRDA:` records of a tracefile for one file.
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

/// lcov's own capture of the compiler's files has the same records as the command's tracefile from
/// the dump.
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

/// gcovr finds the written files and reports the same counts.
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
