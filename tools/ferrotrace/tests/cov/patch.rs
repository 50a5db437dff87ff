// SPDX-License-Identifier: GPL-2.0

//! Coverage of patches: ranges of a scratch repository, diffs and series, conditions for CI.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;

use super::cov;
use super::has;
use super::have;
use crate::common::coverage::Build;
use crate::common::coverage::Compiler;
use crate::common::fail;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

/// Returns a command in a directory, without the configuration of the user.
fn plain(mut command: Command, dir: &Path) -> Command {
    command
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "test");
        command.env(format!("GIT_{role}_EMAIL"), "test@test");
    }
    command
}

/// Runs git.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = plain(Command::new("git"), dir);
    stdout(&succeed(command.args(args))).trim().to_owned()
}

/// A repository.
struct Repository {
    dir: PathBuf,
    _root: TempDir,
}

impl Repository {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let dir = root.path().canonicalize().unwrap().join("linux");
        fs::create_dir(&dir).unwrap();
        git(&dir, &["init", "-q", "-b", "main"]);
        Self { dir, _root: root }
    }

    /// Writes files, and commits all.
    fn commit(&self, subject: &str, files: &[(&str, &str)]) -> String {
        for (name, text) in files {
            let path = self.dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.commit_all(subject)
    }

    fn commit_all(&self, subject: &str) -> String {
        git(&self.dir, &["add", "-A"]);
        git(&self.dir, &["commit", "-q", "--allow-empty", "-m", subject]);
        git(&self.dir, &["rev-parse", "HEAD"])
    }

    /// Writes a tracefile in the directory above the repository.
    fn tracefile(&self, files: &[Covered]) -> String {
        let mut text = String::new();
        for (file, lines, functions) in files {
            text += &format!("TN:\nSF:{file}\n");
            for (name, line) in *functions {
                let calls = lines.iter().find(|(number, _)| number == line).unwrap().1;
                text += &format!("FN:{line},{name}\nFNDA:{calls},{name}\n");
            }
            for (line, count) in *lines {
                text += &format!("DA:{line},{count}\n");
            }
            text += "end_of_record\n";
        }
        let path = self.dir.with_file_name("coverage.info");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Returns the command with a tracefile.
    fn patch(&self, tracefile: &str, args: &[&str]) -> Command {
        let command = cov(&["patch", "--tracefile", tracefile]);
        let mut command = plain(command, &self.dir);
        command.args(args);
        command
    }

    fn json(&self, tracefile: &str, args: &[&str]) -> Value {
        let output = succeed(self.patch(tracefile, args).arg("--json"));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs the command with a diff on standard input.
    fn with_diff(&self, tracefile: &str, diff: &[u8], args: &[&str]) -> Output {
        let path = self.dir.with_file_name("diff");
        fs::write(&path, diff).unwrap();
        let mut command = self.patch(tracefile, &["-"]);
        command.args(args).stdin(fs::File::open(&path).unwrap());
        command.output().unwrap()
    }

    /// Returns what git writes, which may have any bytes.
    fn diff(&self, args: &[&str]) -> Vec<u8> {
        succeed(plain(Command::new("git"), &self.dir).args(args)).stdout
    }
}

/// A file of a tracefile: its lines with counts, and its functions with their lines, whose counts are
/// those of the calls.
type Covered<'a> = (&'a str, &'a [(u32, u64)], &'a [(&'a str, u32)]);

const OLD: &str = "\
int old(int number)
{
	if (number > 3)
		return first_function_of_the_file(number);
	return second_function_of_the_file(number);
}
";

/// The function with other white space, behind a new one.
const NEW: &str = "\
int new(int n)
{
	int sum = 0;

	if (n) {
		sum += n;
		sum *= 2;
	}
	return sum;
}

int old(int number)
{
	if (number > 3) {
		return first_function_of_the_file(number);
	}
	return second_function_of_the_file(number);
}
";

/// Makes a repository with two commits after `base`, and the coverage of its end.
fn two_commits() -> (Repository, [String; 3], String) {
    let repository = Repository::new();
    let files = [
        ("fs/a.c", OLD),
        ("lib/old.c", "int lib;\n"),
        ("Makefile", "all:\n"),
    ];
    let base = repository.commit("base", &files);
    git(&repository.dir, &["tag", "base"]);
    let first = repository.commit("fs: add a function", &[("fs/a.c", NEW)]);
    let last = NEW.replace("\tint sum = 0;", "\tint sum = 0, more = n > 9;");
    let files = [
        ("fs/a.c", &*last),
        ("lib/new.c", "int not_compiled;\n"),
        ("Makefile", "all: x\n"),
    ];
    let second = repository.commit("fs: change it", &files);
    // Only the lines with code; 12 to 17 were there before.
    let lines = [
        (1, 4),
        (3, 4),
        (5, 4),
        (6, 0),
        (7, 0),
        (9, 4),
        (12, 0),
        (14, 0),
        (15, 0),
        (17, 0),
    ];
    let functions = [("new", 1), ("old", 12)];
    let path = repository.dir.join("fs/a.c").display().to_string();
    let tracefile = repository.tracefile(&[(&path, &lines, &functions)]);
    (repository, [base, first, second], tracefile)
}

#[test]
fn a_range() {
    let (repository, [base, first, second], tracefile) = two_commits();
    let document = repository.json(&tracefile, &["base.."]);
    assert_eq!(document["lines"], json!({"hit": 4, "total": 7}));
    assert_eq!(document["functions"], json!({"hit": 1, "total": 1}));
    let commits = document["commits"].as_array().unwrap();
    assert_eq!(commits.len(), 2);
    assert_eq!(commits[0]["commit"], *first);
    assert_eq!(commits[0]["subject"], "fs: add a function");
    assert_eq!(commits[0]["lines"], json!({"hit": 3, "total": 6}));
    let file = &commits[0]["files"][0];
    assert_eq!(file["file"], "fs/a.c");
    // A brace was added to line 14.
    let missed = json!([{"first": 6, "last": 7}, {"first": 14, "last": 14}]);
    assert_eq!(file["missed"], missed);
    assert_eq!(commits[1]["commit"], *second);
    assert_eq!(commits[1]["lines"], json!({"hit": 1, "total": 1}));
    assert_eq!(document["unknown_files"], json!(["lib/new.c"]));
    assert_eq!(document["failed"], Value::Null);

    // Other ways to say it, from another directory.
    for range in ["base..HEAD", "base...main", &format!("{base}..{second}")] {
        assert_eq!(repository.json(&tracefile, &[range]), document, "{range}");
    }
    let mut command = repository.patch(&tracefile, &["base..", "--json"]);
    let output = succeed(command.current_dir(repository.dir.join("lib")));
    assert_eq!(
        serde_json::from_slice::<Value>(&output.stdout).unwrap(),
        document
    );
    let one = repository.json(&tracefile, &["HEAD^!"]);
    assert_eq!(one["lines"], json!({"hit": 1, "total": 1}));
    // The upstream branch.
    git(&repository.dir, &["branch", "-q", "base_branch", "base"]);
    git(&repository.dir, &["branch", "-q", "-u", "base_branch"]);
    assert_eq!(repository.json(&tracefile, &[]), document);

    let text = stdout(&succeed(&mut repository.patch(&tracefile, &["base.."])));
    let expected = format!(
        "\
lines                commit  file
  3/6   50.0%  {}  fs/a.c
  1/1  100.0%  {}  fs/a.c
57.1% of the new lines with code were executed (4/7), and 1/1 of the new functions
not in the coverage (no code, or not compiled): lib/new.c

not executed of {} \"fs: add a function\":
  fs/a.c
       6  \t\tsum += n;
       7  \t\tsum *= 2;
      14  \tif (number > 3) {{
",
        &first[..12],
        &second[..12],
        &first[..12]
    );
    assert_eq!(text, expected);
    let few = stdout(&succeed(
        &mut repository.patch(&tracefile, &["base..", "-t", "1"]),
    ));
    has(&few, &["and 1 more rows", "and 1 more ranges"]);
    let markdown = stdout(&succeed(
        &mut repository.patch(&tracefile, &["base..", "--markdown"]),
    ));
    has(
        &markdown,
        &[
            "**Coverage of the patch:** 57.1%",
            "| `fs/a.c` |",
            "```text\n     6  \t\tsum += n;\n",
        ],
    );
}

#[test]
fn conditions_for_ci() {
    let (repository, _, tracefile) = two_commits();
    let run = |args: &[&str]| {
        repository
            .patch(&tracefile, &["base.."])
            .args(args)
            .output()
            .unwrap()
    };
    for good in [
        &["--fail-under", "57.1"][..],
        &["--fail-under", "0", "--fail-uncovered-new-functions"],
    ] {
        let output = run(good);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            stderr(&output)
        );
    }
    for format in [&[][..], &["--json"], &["--markdown"]] {
        let output = run(&[&["--fail-under", "80"], format].concat());
        assert_eq!(output.status.code(), Some(1));
        let reason = "57.1% of the new lines with code were executed (4/7), less than 80%";
        assert_eq!(stderr(&output), format!("ferrotrace: {reason}\n"));
        // The report is there as well.
        has(&stdout(&output), &["fs/a.c"]);
        if format == ["--json"] {
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["failed"], reason);
        }
    }
    let path = repository.dir.join("fs/a.c").display().to_string();
    let missed = repository.tracefile(&[(&path, &[(1, 0), (5, 1)], &[("new", 1)])]);
    let mut command = repository.patch(&missed, &["base..", "--fail-uncovered-new-functions"]);
    assert_eq!(
        fail(&mut command),
        "ferrotrace: 1 new function was not executed: new (fs/a.c:1)\n"
    );
    // Nothing of the patch has code.
    let nothing = repository.tracefile(&[(&path, &[(12, 0)], &[("old", 12)])]);
    let args = [
        "base..",
        "--fail-under",
        "100",
        "--fail-uncovered-new-functions",
    ];
    let text = stdout(&succeed(&mut repository.patch(&nothing, &args)));
    has(&text, &["nothing to judge: no new line has code"]);
    for bad in ["101", "x", "-1", "80.55"] {
        let mut command = repository.patch(&tracefile, &[&format!("--fail-under={bad}")]);
        assert_eq!(command.output().unwrap().status.code(), Some(2), "{bad}");
    }
}

#[test]
fn diffs_and_series() {
    let (repository, [_, first, _], tracefile) = two_commits();
    let range = repository.json(&tracefile, &["base.."]);
    let judged = |diff: &[u8], args: &[&str]| -> Value {
        let output = repository.with_diff(&tracefile, diff, &[args, &["--json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let series = judged(
        &repository.diff(&["format-patch", "--stdout", "base.."]),
        &[],
    );
    assert_eq!(series["commits"], range["commits"]);
    for form in [
        &[][..],
        &["--no-prefix"],
        &["-U0"],
        &["--src-prefix=i/", "--dst-prefix=w/"],
    ] {
        let diff = repository.diff(&[&["diff"], form, &["base"]].concat());
        let document = judged(&diff, &[]);
        assert_eq!(document["lines"], range["lines"], "{form:?}");
        assert_eq!(document["functions"], range["functions"]);
        assert_eq!(document["commits"][0]["commit"], Value::Null);
        assert_eq!(document["unknown_files"], range["unknown_files"]);
    }
    // The mails in the order of an inbox.
    let mails = repository.diff(&["format-patch", "--stdout", "HEAD^"]);
    let earlier = repository.diff(&["format-patch", "--stdout", "base..HEAD^"]);
    let output = repository.with_diff(&tracefile, &[mails, earlier].concat(), &[]);
    has(
        &stderr(&output),
        &["standard input: line", "fs/a.c has another text here"],
    );
    let output = repository.with_diff(&tracefile, b"", &["--fail-under", "80"]);
    assert!(output.status.success());
    has(&stdout(&output), &["nothing to judge"]);
    let output = repository.with_diff(&tracefile, first.as_bytes(), &[]);
    assert_eq!(output.status.code(), Some(1));
    has(
        &stderr(&output),
        &["standard input: line 1: no unified diff"],
    );
}

/// Returns names that a shell, git or a terminal could take for something else.
fn hostile_names() -> Vec<Vec<u8>> {
    let names: [&[u8]; 11] = [
        b"with space.c",
        b"-dash.c",
        b"--output=x.c",
        b":(glob)*.c",
        b"*.c",
        b"quote\"back\\slash.c",
        b"new\nline.c",
        b"tab\tcr\r.c",
        "gr\u{fc}n \u{202e}\u{9b}.c".as_bytes(),
        b"\xff\xfe.c",
        b"\x1b[2Jx.c",
    ];
    names.map(<[u8]>::to_vec).into()
}

#[test]
fn hostile_names_of_files() {
    let repository = Repository::new();
    repository.commit("base", &[]);
    for name in hostile_names() {
        fs::write(
            repository.dir.join(OsStr::from_bytes(&name)),
            "int x;\nint y;\n",
        )
        .unwrap();
    }
    repository.commit_all("names");
    let files: Vec<String> = hostile_names()
        .iter()
        .map(|name| {
            let name = String::from_utf8_lossy(name).replace(['\n', '\r'], "");
            format!("/build/{name}")
        })
        .collect();
    let lines: &[(u32, u64)] = &[(1, 1), (2, 0)];
    let files: Vec<_> = files.iter().map(|file| (&**file, lines, &[][..])).collect();
    let tracefile = repository.tracefile(&files);
    let expected = json!({"hit": files.len(), "total": 2 * files.len()});
    let document = repository.json(&tracefile, &["HEAD^.."]);
    assert_eq!(document["lines"], expected, "{document}");
    assert_eq!(document["unknown_files"], json!([]));
    let named: Vec<_> = document["commits"][0]["files"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert!(
        named.iter().any(|file| file["file"] == "new\nline.c"),
        "{document}"
    );
    let diff = repository.diff(&["diff", "HEAD^"]);
    let output = repository.with_diff(&tracefile, &diff, &["--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A diff of a new file ends with the next one, so that these are all.
    assert_eq!(document["lines"], expected, "{document}");
    for args in [&["HEAD^.."][..], &["HEAD^..", "--markdown"]] {
        let text = stdout(&succeed(&mut repository.patch(&tracefile, args)));
        let is_bad = |c: char| c.is_control() && !"\n\t".contains(c) || c == '\u{202e}';
        assert!(!text.contains(is_bad), "{text:?}");
        has(&text, &["new\\nline.c", "\\u001b[2Jx.c"]);
    }
}

/// A repository whose configuration and attributes name programs.
#[test]
fn nothing_of_the_repository_is_run() {
    let (repository, _, tracefile) = two_commits();
    let (dir, mark) = (&repository.dir, repository.dir.with_file_name("mark"));
    let expected = repository.json(&tracefile, &["base.."]);
    let script = repository.dir.with_file_name("script");
    fs::write(
        &script,
        format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\ncat\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    fs::write(
        dir.join(".git/info/attributes"),
        "* diff=evil filter=evil\n",
    )
    .unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "interactive.diffFilter",
        "pager.blame",
        "pager.diff-tree",
        "credential.helper",
    ] {
        git(dir, &["config", key, script]);
    }
    git(dir, &["config", "log.showSignature", "true"]);
    git(dir, &["config", "alias.blame", &format!("!{script}")]);
    git(dir, &["config", "color.ui", "always"]);
    // Objects that are missing are not fetched.
    git(dir, &["config", "extensions.partialClone", "origin"]);
    git(
        dir,
        &["config", "remote.origin.url", &format!("ext::{script}")],
    );
    git(dir, &["config", "remote.origin.promisor", "true"]);
    git(dir, &["config", "protocol.ext.allow", "always"]);
    for hook in [
        "post-index-change",
        "post-checkout",
        "fsmonitor-watchman",
        "reference-transaction",
    ] {
        symlink(script, dir.join(".git/hooks").join(hook)).unwrap();
    }
    // The script works: git would run it.
    let mut blame = plain(Command::new("git"), dir);
    succeed(blame.args(["blame", "fs/a.c"]).env("GIT_PAGER", "cat"));
    assert!(fs::exists(&mark).unwrap());
    fs::remove_file(&mark).unwrap();
    assert_eq!(repository.json(&tracefile, &["base.."]), expected);
    let ran = fs::read_to_string(&mark).unwrap_or_default();
    assert_eq!(ran, "");

    // The configuration does not change the result either.
    fs::write(dir.join("ignored"), git(dir, &["rev-parse", "HEAD^"])).unwrap();
    git(dir, &["config", "blame.ignoreRevsFile", "ignored"]);
    git(dir, &["config", "diff.noPrefix", "true"]);
    git(dir, &["config", "blame.blankBoundary", "true"]);
    git(dir, &["config", "core.quotePath", "true"]);
    assert_eq!(repository.json(&tracefile, &["base.."]), expected);

    // A blob is missing.
    let blob = git(dir, &["rev-parse", "HEAD^:fs/a.c"]);
    fs::remove_file(dir.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    has(
        &fail(&mut repository.patch(&tracefile, &["base.."])),
        &["git blame"],
    );
    let ran = fs::read_to_string(&mark).unwrap_or_default();
    assert_eq!(ran, "");
}

#[test]
fn mistakes() {
    let (repository, _, tracefile) = two_commits();
    let said = |args: &[&str]| fail(&mut repository.patch(&tracefile, args));
    has(&said(&["none.."]), &["\"none\": no such commit"]);
    has(
        &said(&["base"]),
        &["\"base\": not a range: base.. has all commits since"],
    );
    has(
        &said(&["x.patch"]),
        &["no such commit", "standard input: -"],
    );
    has(&said(&[]), &["no upstream", "origin/master.."]);
    has(&said(&["HEAD~9.."]), &["\"HEAD~9\": no such commit"]);
    // An option of git is no range.
    has(
        &said(&["--", "--output=x.."]),
        &["\"--output=x\": no such commit"],
    );
    git(&repository.dir, &["checkout", "-q", "--orphan", "other"]);
    repository.commit("apart", &[]);
    has(&said(&["base.."]), &["no commit in common", "--unshallow"]);
    git(&repository.dir, &["checkout", "-q", "main"]);

    let clone = repository.dir.with_file_name("clone");
    let url = format!("file://{}", repository.dir.display());
    let depth = [
        "clone",
        "-q",
        "--depth=1",
        "--no-single-branch",
        &url,
        clone.to_str().unwrap(),
    ];
    git(&repository.dir, &depth);
    git(
        &clone,
        &["fetch", "-q", "--depth=1", "origin", "tag", "base"],
    );
    let mut command = repository.patch(&tracefile, &["base.."]);
    has(&fail(command.current_dir(&clone)), &["no commit in common"]);

    let outside = TempDir::new().unwrap();
    let mut command = repository.patch(&tracefile, &["base.."]);
    has(
        &fail(command.current_dir(outside.path())),
        &["git rev-parse: not a git repository"],
    );
    let mut command = repository.patch(&tracefile, &["base.."]);
    has(
        &fail(command.env("PATH", outside.path())),
        &["git cannot be run"],
    );

    let bad = repository.dir.with_file_name("bad.info");
    fs::write(&bad, "SF:/a.c\nDA:1,x\n").unwrap();
    let bad = bad.to_str().unwrap();
    let mut command = repository.patch(bad, &["base.."]);
    has(
        &fail(&mut command),
        &["bad.info: line 2: \"x\" is no count"],
    );
    for args in [
        &["-", "--tracefile", "-"][..],
        &["base..", "--tracefile", "-", "--tracefile", "-"],
    ] {
        let mut command = cov(&["patch"]);
        has(&fail(command.args(args)), &["standard input is one file"]);
    }
    let mut command = repository.patch(&tracefile, &["base..", "a.dump"]);
    assert_eq!(command.output().unwrap().status.code(), Some(2));
}

#[test]
fn files_of_several_builds() {
    let (repository, _, _) = two_commits();
    let lines: &[(u32, u64)] = &[(1, 1), (3, 0)];
    let two = [("/one/fs/a.c", lines, &[][..]), ("/two/fs/a.c", lines, &[])];
    let tracefile = repository.tracefile(&two);
    let message = fail(&mut repository.patch(&tracefile, &["base.."]));
    has(
        &message,
        &[
            "fs/a.c: may be any of these",
            "/one/fs/a.c, /two/fs/a.c",
            "--srcdir",
        ],
    );
    let output = succeed(&mut repository.patch(&tracefile, &["base..", "-k"]));
    has(&stderr(&output), &["warning: fs/a.c: may be any"]);
    has(&stdout(&output), &["nothing to judge"]);
    let document = repository.json(&tracefile, &["base..", "--srcdir", "/two"]);
    assert_eq!(document["lines"], json!({"hit": 1, "total": 2}));
    // A file of the repository that only ends with the other.
    repository.commit("deeper", &[("arch/fs/a.c", "int x;\n")]);
    let other = repository.tracefile(&[("/one/arch/fs/a.c", &[(1, 1)], &[])]);
    let document = repository.json(&other, &["base.."]);
    assert_eq!(document["lines"], json!({"hit": 1, "total": 1}));
    assert_eq!(document["unknown_files"], json!(["fs/a.c", "lib/new.c"]));
    // Two tracefiles are added up.
    let more = repository.dir.with_file_name("more.info");
    fs::write(&more, "SF:/one/fs/a.c\nDA:3,1\nend_of_record\n").unwrap();
    let one = repository.tracefile(&two[..1]);
    let mut command = repository.patch(&one, &["base..", "--json", "--tracefile"]);
    let output = succeed(command.arg(&more));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["lines"], json!({"hit": 2, "total": 2}));
}

/// The sources were changed since they were compiled.
#[test]
fn coverage_of_another_version() {
    let (repository, _, tracefile) = two_commits();
    fs::write(
        repository.dir.join("fs/a.c"),
        NEW.replace("sum += n", "sum -= n"),
    )
    .unwrap();
    let output = succeed(&mut repository.patch(&tracefile, &["base..", "--json"]));
    has(
        &stderr(&output),
        &["fs/a.c: 2 of", "new lines have another text"],
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    has(document["remarks"][0].as_str().unwrap(), &["2 of"]);
}

/// A program that a compiler instrumented, and its counters as a dump.
#[test]
fn counters_of_a_build() {
    let build = Build::new(&Compiler::system());
    let dir = build.dir.clone();
    git(&dir, &["init", "-q", "-b", "main"]);
    fs::write(dir.join(".gitignore"), "*.o\n*.gc*\nprogram\n*.dump\n").unwrap();
    let commit = |subject: &str| {
        git(&dir, &["add", "-A"]);
        git(&dir, &["commit", "-q", "-m", subject]);
    };
    commit("base");
    let work = fs::read_to_string(dir.join("sub/work.c")).unwrap();
    let used = "\nint __attribute__((noinline)) used(int n)\n{\n\tif (n > 100)\n\t\treturn shared(n);\n\treturn n;\n}\n";
    let unused = "\nint unused(int n)\n{\n\treturn shared(n) + 1;\n}\n";
    let called = work.replace("\treturn sum;", "\treturn used(sum);");
    let called = called.replace("\nint work", &format!("{used}\nint work"));
    fs::write(dir.join("sub/work.c"), called + unused).unwrap();
    commit("work: use a function");
    build.make();
    build.run(&["1"]);
    let before = build.save_dump("before.dump");
    build.run(&["8"]);
    let dump = build.save_dump("after.dump");
    let patch = |args: &[&str]| {
        let mut command = plain(cov(&["patch"]), &dir);
        command.args(args);
        command
    };
    let judged = |args: &[&str], dumps: &[&Path]| -> Value {
        let output = succeed(patch(args).arg("--json").args(dumps));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let document = judged(&["HEAD^.."], &[&dump]);
    assert_eq!(document["functions"], json!({"hit": 1, "total": 2}));
    let missed = &document["commits"][0]["functions"][1];
    assert_eq!(
        (missed["names"][0].as_str(), missed["executed"].as_bool()),
        (Some("unused"), Some(false))
    );
    let lines = &document["lines"];
    assert!(
        lines["hit"].as_u64() > Some(2) && lines["hit"].as_u64() < lines["total"].as_u64(),
        "{document}"
    );
    assert_eq!(document["unknown_files"], json!([]));
    assert_eq!(document["remarks"], json!([]));
    let output = patch(&["HEAD^..", "--fail-uncovered-new-functions"])
        .arg(&dump)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    has(
        &stderr(&output),
        &["1 new function was not executed: unused (sub/work.c:"],
    );

    // The same from the running kernel, as a difference, and by a tracefile.
    let kernel = build.debugfs();
    let kernel = kernel.to_str().unwrap();
    assert_eq!(judged(&["HEAD^..", "--dir", kernel], &[]), document);
    assert_eq!(
        judged(&["HEAD^.."], &[&before, &dump])["lines"],
        document["lines"]
    );
    let since = judged(&["HEAD^..", "--since", dump.to_str().unwrap()], &[&dump]);
    assert_eq!(since["lines"], json!({"hit": 0, "total": lines["total"]}));
    let saved = build.dir.join("saved.info");
    succeed(cov(&["report", "--lcov"]).arg(&saved).arg(&dump));
    let by_tracefile = || judged(&["HEAD^..", "--tracefile", saved.to_str().unwrap()], &[]);
    assert_eq!(by_tracefile(), document);
    // Tracefiles of other programs, which read the compiler's files. Old versions of gcovr write none.
    let has_lcov = Command::new("gcovr").arg("--help").output();
    let has_lcov = has_lcov.is_ok_and(|output| stdout(&output).contains("--lcov"));
    for (is_there, words) in [
        (have("lcov"), &["lcov", "-q", "-c", "-d", ".", "-o"][..]),
        (has_lcov, &["gcovr", "--root", ".", "--lcov"]),
    ] {
        if !is_there {
            continue;
        }
        fs::remove_file(&saved).unwrap();
        let mut program = Command::new(words[0]);
        succeed(program.args(&words[1..]).arg(&saved).current_dir(&dir));
        let theirs = by_tracefile();
        assert_eq!(theirs["lines"], document["lines"], "{words:?}");
        assert_eq!(theirs["functions"], document["functions"], "{words:?}");
    }
}

/// Each commit of a series is built, run and judged, as Documentation/ferrotrace.rst shows it. The
/// commit whose new function no test calls stops the rebase.
#[test]
fn each_commit_of_a_rebase() {
    let repository = Repository::new();
    let function = |name: &str| format!("int {name}(void) {{\n\treturn 1;\n}}\n");
    let file = |names: &[&str]| names.iter().map(|name| function(name)).collect::<String>();
    repository.commit("base", &[("a.c", &file(&["one"]))]);
    git(&repository.dir, &["tag", "base"]);
    repository.commit("good", &[("a.c", &file(&["one", "two"]))]);
    let bad = repository.commit("bad", &[("a.c", &file(&["one", "two", "cold"]))]);
    repository.commit("next", &[("a.c", &file(&["one", "two", "cold", "four"]))]);
    // In place of a compiler and a test: a function is executed unless it is called cold.
    let info = repository.dir.with_file_name("coverage.info");
    let test = "{ if (/^int/) { name = $2; sub(/\\(.*/, \"\", name); hit = name != \"cold\"; \
                print \"FN:\" NR \",\" name \"\\nFNDA:\" hit \",\" name } \
                if (/;/ || /^int/) print \"DA:\" NR \",\" hit }";
    let script = format!(
        "{{ echo \"SF:$PWD/a.c\"; awk '{test}' a.c; echo end_of_record; }} >'{info}' && \
         '{program}' cov patch 'HEAD^!' --tracefile '{info}' --fail-uncovered-new-functions",
        info = info.display(),
        program = env!("CARGO_BIN_EXE_ferrotrace"),
    );
    let mut rebase = plain(Command::new("git"), &repository.dir);
    rebase
        .args(["rebase", "--exec", &script, "base"])
        .stdin(Stdio::null());
    let output = rebase.output().unwrap();
    assert!(!output.status.success());
    let text = format!("{}{}", stdout(&output), stderr(&output));
    has(
        &text,
        &["ferrotrace: 1 new function was not executed: cold (a.c:7)"],
    );
    has(&text, &["100.0% of the new lines with code were executed"]);
    assert_eq!(git(&repository.dir, &["rev-parse", "HEAD"]), bad);
}
