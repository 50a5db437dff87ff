// SPDX-License-Identifier: GPL-2.0

//! Runs of live coverage and tracefiles in place of dumps: `cov report`, `cov patch` and genhtml.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::cov;
use super::fleet::Fleet;
use super::fleet::KERNEL;
use super::has;
use super::have;
use crate::common::fail;
use crate::common::stdout;
use crate::common::succeed;

/// Runs and tracefiles are inputs of the same reports as counters.
#[test]
fn what_only_one_test_executed() {
    let fleet = Fleet::new(&["-g"]);
    let before = fleet.run("before", &[("every", Some(0)), ("every", Some(2))]);
    let both = [("every", None), ("single", None)];
    let after = fleet.run("after", &both);
    let image = fleet.path("vmlinux");
    let report = |args: &[&str], files: &[&Path]| {
        let mut command = cov(&["report"]);
        stdout(&succeed(command.args(args).args(files)))
    };
    let with_lines = |args: &[&str], files: &[&Path]| {
        report(
            &[&["--vmlinux", image.to_str().unwrap()], args].concat(),
            files,
        )
    };
    let difference = with_lines(&["--lcov", "-"], &[&before, &after]);
    // The block of the asm statement, and a function.
    has(
        &difference,
        &[
            "DA:6,0\n",
            "DA:7,1\n",
            "DA:8,0\n",
            "DA:13,1\n",
            "DA:18,0\n",
            "FNDA:1,single",
        ],
    );
    has(
        &difference,
        &["FNDA:1,every", "FNDA:0,never", "FNF:3\nFNH:2"],
    );
    // A function and a line count as new only if the first run did not execute them at all.
    let since = with_lines(
        &["--functions", "--since", before.to_str().unwrap()],
        &[&after],
    );
    has(
        &since,
        &[
            "    1     1/3   33.3%  every (",
            "    1     1/1  100.0%  single (",
        ],
    );
    assert!(!since.contains("never"), "{since}");
    let merged = fleet
        .merge(&["--since"], &[])
        .arg(&before)
        .arg("--lcov")
        .arg("-")
        .arg(&after)
        .output();
    assert_eq!(
        String::from_utf8(merged.unwrap().stdout).unwrap(),
        difference
    );
    // By tracefiles, which know no blocks.
    let (old, new) = (fleet.path("before.info"), fleet.path("after.info"));
    for (run, file) in [(&before, &old), (&after, &new)] {
        let text = with_lines(&["--lcov", "-"], &[run]);
        fs::write(file, text).unwrap();
    }
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("DA:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let by_tracefiles = report(&["--lcov", "-"], &[&old, &new]);
    assert_eq!(lines(&by_tracefiles), lines(&difference));
    has(&by_tracefiles, &["FNDA:0,every", "FNDA:1,single"]);
    let mixed = with_lines(&["--lcov", "-"], &[&old, &after]);
    assert_eq!(lines(&mixed), lines(&difference));
    let table = report(&["--json", "--functions"], &[&old, &new]);
    let table: Value = serde_json::from_str(&table).unwrap();
    assert_eq!(
        table["functions"],
        serde_json::json!({"hit": 1, "total": 3})
    );
    let source = with_lines(
        &["--source", "--srcdir", fleet.dir.path().to_str().unwrap()],
        &[&before, &after],
    );
    has(
        &source,
        &[
            "        +:    7:\t\tasm volatile",
            "    #####:    8:\treturn n + 1;",
            "        +:   13:\treturn every(n) - 1;",
        ],
    );
    let command = &mut cov(&["report", "--only", "kernel"]);
    has(&fail(command.arg(&new)), &["are for dumps"]);
    has(
        &fail(cov(&["report"]).args([&before, &new])),
        &["no image has the build ID"],
    );
    // Without the image's lines, of the running kernel: no other has the build ID.
    has(
        &fail(cov(&["report"]).args([&before, &after])),
        &["no image has the build ID"],
    );
}

/// The paths of the report are those of the source tree.
#[test]
fn pages_of_genhtml() {
    if !have("genhtml") {
        return;
    }
    let fleet = Fleet::new(&["-g", "-fdebug-prefix-map=.=/far/away"]);
    let run = fleet.run("one", &[("every", None)]);
    let (tree, info) = (fleet.path("tree"), fleet.path("one.info"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("kernel.c"), KERNEL).unwrap();
    let mut merge = fleet.merge(&["--lcov"], &[run]);
    succeed(merge.arg(&info).arg("--srcdir").arg(&tree));
    has(
        &fs::read_to_string(&info).unwrap(),
        &[&format!("SF:{}/kernel.c\n", tree.display())],
    );
    let mut genhtml = Command::new("genhtml");
    succeed(genhtml.arg(&info).arg("-o").arg(fleet.path("html")));
    let page = Command::new("grep")
        .args(["-rl", "return every"])
        .arg(fleet.path("html"))
        .output();
    assert!(!page.unwrap().stdout.is_empty());
}

/// The new lines of a patch, by a run.
#[test]
fn a_patch_of_executed_lines() {
    let fleet = Fleet::new(&["-g", "-DCOLD"]);
    let run = fleet.run(
        "one",
        &[("every", Some(0)), ("every", Some(2)), ("single", None)],
    );
    let dir = fleet.dir.path();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        stdout(&succeed(git.args(args).current_dir(dir)))
    };
    let source = fleet.path("kernel.c");
    let mut old = KERNEL.to_owned();
    for (new, before) in [
        ("n ^ 5", "n"),
        ("n ^ 7", "n"),
        ("every(n) - 1", "every(n)"),
        (
            "\tif (n > 3)\n\t\tasm volatile(\"test %eax, %eax\");\n",
            "\n\n",
        ),
    ] {
        old = old.replace(new, before);
    }
    fs::write(&source, old).unwrap();
    git(&["init", "-q"]);
    git(&["add", "kernel.c"]);
    git(&["commit", "-qm", "begin"]);
    fs::write(&source, KERNEL).unwrap();
    git(&["commit", "-qam", "branch"]);
    let mut patch = cov(&["patch", "HEAD^..", "--json", "--vmlinux", "vmlinux"]);
    let output = succeed(patch.arg(&run).current_dir(dir)).stdout;
    let json: Value = serde_json::from_slice(&output).unwrap();
    // The test and the call are executed, and not the asm statement and two functions. A cold part
    // is no function.
    let shares = [&json["lines"], &json["functions"]].map(Value::to_string);
    assert_eq!(
        shares,
        [r#"{"hit":2,"total":5}"#, r#"{"hit":0,"total":0}"#],
        "{json}"
    );
}
