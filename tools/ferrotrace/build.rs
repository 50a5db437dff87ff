// SPDX-License-Identifier: GPL-2.0

//! Sets `FERROTRACE_VERSION` for the crate: the package's version, and the commit if the sources
//! are a checkout of git.

use std::path::Path;
use std::process::Command;

/// Digits of the commit, as the kernel quotes commits.
const DIGITS: &str = "--short=12";

/// Returns the output of a git command in the package's directory, if it succeeds.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Returns the commit, if git knows this package: the sources may lie in another project's
/// checkout.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    git(&["rev-parse", DIGITS, "HEAD"])
}

/// Returns the files that change when the commit does.
fn files_of_the_commit() -> Vec<String> {
    let mut names: Vec<_> = ["HEAD", "logs/HEAD", "packed-refs"]
        .map(str::to_owned)
        .into();
    names.extend(git(&["symbolic-ref", "-q", "HEAD"]));
    let paths = names
        .iter()
        .filter_map(|name| git(&["rev-parse", "--git-path", name]));
    // Cargo runs a script again and again for a file that does not exist.
    paths.filter(|path| Path::new(path).exists()).collect()
}

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=FERROTRACE_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
    for file in files_of_the_commit() {
        println!("cargo::rerun-if-changed={file}");
    }
}
