// SPDX-License-Identifier: GPL-2.0

//! Coverage of a patch: the changed lines that were executed.
//!
//! A patch is a range of commits, which [`git`] reads, or a unified diff, which [`diff`] reads.
//! [`matching`] finds its files in the coverage, [`judge`] compares both, and [`print`] shows the
//! result.

#![deny(unsafe_code)]

pub mod diff;
pub mod git;
pub mod judge;
pub mod matching;
pub mod print;

/// Bytes of a line of source that are kept: the rest would fill screens.
const TEXT: usize = 200;

/// A commit, or one mail of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Its identification, unless a diff lacks it.
    pub id: Option<String>,
    /// The first line of its message.
    pub subject: String,
}

/// A new line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: u32,
    /// Its beginning.
    pub text: String,
    /// Index of its commit.
    pub commit: usize,
}

/// A file that a patch changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Names of it, the most likely one first: diffs have names with a directory before them.
    pub names: Vec<String>,
    /// Its new lines, in order.
    pub lines: Vec<Line>,
}

/// The changes of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Its commits, the first one first.
    pub commits: Vec<Commit>,
    /// Its files, in the order of their names.
    pub files: Vec<Changed>,
}

/// Returns the beginning of a line of source.
fn beginning(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.get(..TEXT) {
        Some(start) => format!("{}...", String::from_utf8_lossy(start)),
        None => String::from_utf8_lossy(line).into_owned(),
    }
}

/// Returns true for names of C and Rust files.
fn is_source(name: &str) -> bool {
    [".c", ".h", ".rs"].iter().any(|end| name.ends_with(end))
}

/// Returns true for the identification of a commit.
fn is_hash(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
