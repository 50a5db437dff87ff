// SPDX-License-Identifier: GPL-2.0

//! Where the source files are that compilers name relative to a directory.
//!
//! A kernel that is built in a directory of its own (`O=`) names its sources relative to the source tree, but the
//! compiler runs in the other directory, which has a link `source` to the tree.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

use super::paths::plain;

/// Finds source files.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The source tree, if the user names one.
    dir: Option<PathBuf>,
    found: HashMap<(PathBuf, String), String>,
}

/// The tree to which the link in a build directory leads.
fn linked(directory: &Path) -> Option<PathBuf> {
    let link = directory.join("source");
    if link.is_symlink() {
        link.canonicalize().ok()
    } else {
        None
    }
}

impl Sources {
    /// With the source tree, if the user names one.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self {
            dir,
            found: HashMap::new(),
        }
    }

    /// The path of a source file. The compiler ran in `directory`, if that is known, and wrote its notes to `notes`.
    pub fn find(&mut self, file: &str, directory: Option<&Path>, notes: &Path) -> String {
        let base = directory.filter(|directory| directory.is_absolute());
        let key = match base {
            Some(base) => base.to_owned(),
            None => notes.parent().unwrap_or(Path::new("/")).to_owned(),
        };
        let key = (key, file.to_owned());
        if let Some(found) = self.found.get(&key) {
            return found.clone();
        }
        let path = self.search(Path::new(file), base, notes);
        let path = plain(&path).to_string_lossy().into_owned();
        self.found.insert(key, path.clone());
        path
    }

    fn search(&self, file: &Path, base: Option<&Path>, notes: &Path) -> PathBuf {
        if file.is_absolute() {
            return file.to_owned();
        }
        // Without the directory, it is one of those above the notes.
        let bases: Vec<&Path> = match base {
            Some(base) => vec![base],
            None => notes.ancestors().skip(1).collect(),
        };
        let trees = bases.iter().filter_map(|base| linked(base));
        let named = self.dir.iter().cloned();
        let dirs = named.chain(bases.iter().map(|base| base.into()));
        let mut paths = dirs.chain(trees).map(|dir| dir.join(file));
        let found = paths.find(|path| path.is_file());
        found.unwrap_or_else(|| match base {
            Some(base) => base.join(file),
            None => file.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn places() {
        let root = TempDir::new().unwrap();
        let root = root.path().canonicalize().unwrap();
        for dir in ["src/kernel", "build/kernel", "other/lib"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let files = [
            "src/kernel/fork.c",
            "build/kernel/bounds.c",
            "other/lib/sort.c",
        ];
        let [fork, bounds, sort] = files.map(|file| root.join(file).display().to_string());
        for file in [&fork, &bounds, &sort] {
            fs::write(file, "").unwrap();
        }
        let build = root.join("build");
        symlink(root.join("src"), build.join("source")).unwrap();
        let notes = build.join("kernel/x.gcno");
        let mut sources = Sources::new(None);
        for directory in [Some(build.as_path()), None] {
            for _ in 0..2 {
                let mut find = |file: &str| sources.find(file, directory, &notes);
                assert_eq!(find("kernel/fork.c"), fork);
                assert_eq!(find("./kernel/bounds.c"), bounds);
                assert_eq!(find("kernel/../kernel/fork.c"), fork);
                assert_eq!(find("/usr/include/x.h"), "/usr/include/x.h");
            }
        }
        let absent = build.join("lib/sort.c").display().to_string();
        assert_eq!(sources.find("lib/sort.c", Some(&build), &notes), absent);
        assert_eq!(sources.find("lib/sort.c", None, &notes), "lib/sort.c");
        let mut sources = Sources::new(Some(root.join("other")));
        assert_eq!(sources.find("lib/sort.c", Some(&build), &notes), sort);
        assert_eq!(sources.find("kernel/fork.c", Some(&build), &notes), fork);
    }
}
