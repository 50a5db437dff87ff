// SPDX-License-Identifier: GPL-2.0

//! The version, and the commit of the sources.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::ferrotrace;
use crate::common::stdout;
use crate::common::succeed;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns a git command in a directory, without the user's configuration.
fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "test");
        command.env(format!("GIT_{role}_EMAIL"), "test@test");
    }
    command
}

fn commit_of(dir: &Path) -> String {
    let mut command = git(dir);
    stdout(&succeed(command.args(["rev-parse", "--short=12", "HEAD"])))
        .trim()
        .to_owned()
}

/// The commit may be an earlier one if a commit is made while this test is built.
#[test]
fn the_command_shows_a_commit() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let known = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(package).output();
        output.is_ok_and(|output| output.status.success())
    };
    let text = stdout(&succeed(ferrotrace().arg("--version")));
    let said = text
        .trim()
        .strip_prefix(&format!("ferrotrace {VERSION}"))
        .unwrap();
    if known(&["ls-files", "--error-unmatch", "Cargo.toml"]) {
        let commit = said.strip_prefix(" (").unwrap().strip_suffix(')').unwrap();
        assert_eq!(commit.len(), 12, "{text}");
        assert!(
            known(&["cat-file", "-e", &format!("{commit}^{{commit}}")]),
            "{text}"
        );
    } else {
        assert_eq!(said, "");
    }
}

/// Runs the build script in a directory of its own.
#[test]
fn the_build_script_follows_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    succeed(
        Command::new(rustc)
            .args(["--edition=2024", source, "-o"])
            .arg(&script),
    );
    let package = dir.path().join("package");
    fs::create_dir(&package).unwrap();
    fs::write(package.join("Cargo.toml"), "").unwrap();
    let run = || stdout(&succeed(Command::new(&script).current_dir(&package)));
    let version = |says: &str| {
        let said = run();
        let line = format!("cargo::rustc-env=FERROTRACE_VERSION={says}");
        assert!(said.lines().any(|l| l == line), "{said}, not {line}");
    };

    version(VERSION);
    succeed(git(&package).args(["init", "-q"]));
    succeed(git(&package).args(["commit", "-q", "--allow-empty", "-m", "another project"]));
    version(VERSION);
    succeed(git(&package).args(["add", "Cargo.toml"]));
    version(&format!("{VERSION} ({})", commit_of(&package)));

    // Cargo compares the time and the size of these files.
    let watched = |said: &str| -> Vec<_> {
        said.lines()
            .filter_map(|line| line.strip_prefix("cargo::rerun-if-changed=.git/"))
            .map(|name| fs::read(package.join(".git").join(name)).unwrap())
            .collect()
    };
    let said = run();
    let before = watched(&said);
    succeed(git(&package).args(["commit", "-q", "-m", "the package"]));
    assert_ne!(watched(&said), before);
    version(&format!("{VERSION} ({})", commit_of(&package)));
}
