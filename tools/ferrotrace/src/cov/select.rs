// SPDX-License-Identifier: GPL-2.0

//! Some of the objects: a file, a subsystem's directory, a module, or what a pattern matches.

#![deny(unsafe_code)]

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::functions::glob;

use super::error::Error;
use super::error::Result;
use super::paths::plain;
use super::paths::root;

/// Endings that a pattern may have, since an object has several files.
const ENDINGS: [&str; 6] = [".gcda", ".gcno", ".profraw", ".ko", ".c", ".o"];

/// Error in a pattern.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PatternError {
    /// It has no name in it.
    #[error(
        "a pattern is the path of an object, a directory or a module, in which * is any text, ? any character and [a-z] one of several"
    )]
    Empty,
    /// A set of characters without its end.
    #[error("[ without ]")]
    Bracket,
}

/// Names objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// Without an ending.
    stem: String,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> std::result::Result<Self, PatternError> {
        let stem = text.trim_start_matches("./").trim_end_matches('/');
        let stripped = ENDINGS.iter().find_map(|ending| stem.strip_suffix(ending));
        let stem = stripped.unwrap_or(stem);
        if stem.is_empty() {
            return Err(PatternError::Empty);
        }
        if !glob::is_closed(stem.as_bytes()) {
            return Err(PatternError::Bracket);
        }
        Ok(Self {
            text: text.to_owned(),
            stem: stem.to_owned(),
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A path without its ending.
fn stem(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    let stripped = path.strip_suffix(b".gcda");
    stripped.or(path.strip_suffix(b".profraw")).unwrap_or(path)
}

/// Returns the part of a path after each `/`, longest first.
fn tails(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| path.get(at + 1..))
}

impl Pattern {
    /// Returns true if the pattern names a path, or a directory above it.
    fn names(&self, path: &[u8]) -> bool {
        let below = [self.stem.as_bytes(), b"/*"].concat();
        glob::matches(self.stem.as_bytes(), path) || glob::matches(&below, path)
    }

    fn names_below(&self, root: &Path, path: &Path) -> bool {
        let path = path.strip_prefix(root).unwrap_or(path);
        self.names(stem(path))
    }

    fn names_anywhere(&self, path: &Path) -> bool {
        let path = stem(path);
        self.names(path) || tails(path).any(|tail| self.names(tail))
    }

    /// The module that it may be.
    pub fn module(&self) -> Option<&str> {
        (!self.stem.contains(['/', '*', '?', '['])).then_some(&self.stem)
    }

    /// Returns, for each object, true if the pattern names it; `None` if it names none. `root`
    /// contains all objects.
    fn select(&self, objects: &[&Path], root: &Path, module: &[PathBuf]) -> Option<Vec<bool>> {
        let select = |names: &dyn Fn(&Path) -> bool| {
            let selected: Vec<bool> = objects.iter().map(|object| names(object)).collect();
            selected.contains(&true).then_some(selected)
        };
        if self.stem.starts_with('/') {
            return select(&|object| self.names(stem(object)));
        }
        // `kernel` is the directory at the root, if there is one there, and not arch/x86/kernel. Only what is in no such
        // place can be a module.
        select(&|object| self.names_below(root, object))
            .or_else(|| select(&|object| self.names_anywhere(object)))
            .or_else(|| select(&|object| module.iter().any(|part| part == object)))
    }
}

/// Which of the objects the patterns name; all of them without any pattern. `module` returns the objects of a module.
pub fn select(
    objects: &[&Path],
    patterns: &[Pattern],
    module: impl Fn(&str) -> Vec<PathBuf>,
) -> Result<Vec<bool>> {
    if patterns.is_empty() {
        return Ok(vec![true; objects.len()]);
    }
    let plain: Vec<PathBuf> = objects.iter().map(|object| plain(object)).collect();
    let objects: Vec<&Path> = plain.iter().map(PathBuf::as_path).collect();
    let root = root(objects.iter().copied()).unwrap_or(Path::new("/"));
    let mut selected = vec![false; objects.len()];
    for pattern in patterns {
        let named = pattern.select(&objects, root, &[]).or_else(|| {
            let module = module(pattern.module()?);
            let module: Vec<PathBuf> = module.iter().map(|path| self::plain(path)).collect();
            pattern.select(&objects, root, &module)
        });
        let named = named.ok_or_else(|| Error::NoMatch {
            pattern: pattern.to_string(),
            examples: objects.iter().take(3).map(|path| path.into()).collect(),
        })?;
        for (selected, named) in selected.iter_mut().zip(named) {
            *selected |= named;
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: [&str; 6] = [
        "/home/kernel/b/kernel/fork.gcda",
        "/home/kernel/b/kernel/sched/core.gcda",
        "/home/kernel/b/kernel/sched/fair.gcda",
        "/home/kernel/b/arch/x86/kernel/apic.gcda",
        "/home/kernel/b/fs/ext4/super.gcda",
        "/home/kernel/b/fs/ext4.gcda",
    ];

    fn named(pattern: &str) -> Vec<usize> {
        let pattern: Pattern = pattern.parse().unwrap();
        let module = |name: &str| match name {
            "sched_mod" => vec![OBJECTS[1].into(), "/elsewhere.gcda".into()],
            _ => Vec::new(),
        };
        let objects = OBJECTS.map(Path::new);
        match select(&objects, &[pattern], module) {
            Ok(selected) => (0..6).filter(|at| selected[*at]).collect(),
            Err(Error::NoMatch { examples, .. }) => {
                assert_eq!(examples.len(), 3);
                Vec::new()
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn patterns() {
        for (pattern, expected) in [
            ("kernel", &[0, 1, 2][..]),
            ("kernel/", &[0, 1, 2]),
            ("./kernel/sched", &[1, 2]),
            ("kernel/sched/core.c", &[1]),
            ("core.o", &[1]),
            ("core", &[1]),
            ("sched", &[1, 2]),
            ("sched/*", &[1, 2]),
            ("x86/kernel", &[3]),
            ("arch/*/kernel", &[3]),
            ("*/f*", &[0, 2]),
            ("fs/ext4", &[4, 5]),
            ("fs/ext4/*.c", &[4]),
            ("fork.gcda", &[0]),
            ("/home/kernel", &[0, 1, 2, 3, 4, 5]),
            ("/home/kernel/b/fs", &[4, 5]),
            ("/kernel", &[]),
            ("ore", &[]),
            ("sched_mod", &[1]),
            ("other_mod", &[]),
            ("[cf]o*", &[0, 1]),
        ] {
            assert_eq!(named(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn several() {
        let patterns = ["core", "ext4"].map(|pattern| pattern.parse().unwrap());
        let objects = OBJECTS.map(Path::new);
        let selected = select(&objects, &patterns, |_| Vec::new()).unwrap();
        assert_eq!(selected, [false, true, false, false, true, true]);
        assert_eq!(select(&objects, &[], |_| Vec::new()).unwrap(), [true; 6]);
    }

    #[test]
    fn no_patterns() {
        for text in ["", "/", "./", ".c"] {
            assert_eq!(text.parse::<Pattern>(), Err(PatternError::Empty), "{text}");
        }
        assert_eq!("a[b".parse::<Pattern>(), Err(PatternError::Bracket));
    }
}
