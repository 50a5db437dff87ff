// SPDX-License-Identifier: GPL-2.0

//! Paths that are only names: nothing asks the system what they lead to.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

/// A path without `.` and `..`. What is above the root is the root.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        let above = plain.components().next_back();
        match (component, above) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => (),
            (Component::ParentDir, Some(Component::Normal(_))) => {
                plain.pop();
            }
            _ => plain.push(component),
        }
    }
    plain
}

/// The directory that has all files.
pub fn root<'p>(files: impl IntoIterator<Item = &'p Path>) -> Option<&'p Path> {
    let mut dirs = files.into_iter().filter_map(Path::parent);
    let first = dirs.next()?;
    dirs.try_fold(first, |root, dir| {
        root.ancestors().find(|root| dir.starts_with(root))
    })
}

/// The lowest directory that has nine tenths of the files.
pub fn main_root<'p>(files: &[&'p Path]) -> Option<&'p Path> {
    let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
    for file in files {
        for dir in file.ancestors().skip(1) {
            *counts.entry(dir).or_default() += 1;
        }
    }
    let most = files.len() - files.len() / 10;
    // Two that are not above each other cannot both have so many.
    let roots = counts.into_iter().filter(|(_, count)| *count >= most);
    let roots = roots.map(|(dir, _)| dir);
    roots.max_by_key(|dir| dir.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths() {
        for (path, expected) in [
            ("/b/./kernel/../lib/a.c", "/b/lib/a.c"),
            ("/../a.c", "/a.c"),
            ("../a.c", "../a.c"),
            ("b/../../a.c", "../a.c"),
            ("./a.c", "a.c"),
        ] {
            assert_eq!(plain(Path::new(path)), Path::new(expected));
        }
    }

    #[test]
    fn roots() {
        let root = |names: &[&'static str]| root(names.iter().map(Path::new)).map(Path::to_owned);
        assert_eq!(root(&[]), None);
        assert_eq!(root(&["/a/b/c.gcda"]), Some("/a/b".into()));
        assert_eq!(root(&["/a/b/c.gcda", "/a/bc/d.gcda"]), Some("/a".into()));
        assert_eq!(root(&["/a/b.gcda", "/c/d.gcda"]), Some("/".into()));
    }

    #[test]
    fn most_files() {
        let mut files = vec!["/b/kernel/a.c"; 18];
        files.push("/b/lib/a.c");
        files.push("/usr/include/stddef.h");
        let root = |files: &[&'static str]| {
            let files: Vec<&Path> = files.iter().copied().map(Path::new).collect();
            main_root(&files)
        };
        assert_eq!(root(&files), Some(Path::new("/b/kernel")));
        files.push("/b/lib/b.c");
        assert_eq!(root(&files), Some(Path::new("/b")));
        assert_eq!(root(&["/a/b.c", "/c/d.c"]), Some(Path::new("/")));
        assert_eq!(root(&[]), None);
    }
}
