// SPDX-License-Identifier: GPL-2.0

//! Finds the files of a patch in coverage.
//!
//! Coverage has the paths of the build, which are absolute, and a patch has paths below the
//! repository: two are one file if the one ends with the other.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

use super::super::coverage::Coverage;
use super::Changed;

/// Place of a file in the coverage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'c> {
    /// It does, by this path.
    Known {
        /// The name of the patch.
        name: String,
        /// The path of the coverage.
        path: &'c str,
    },
    /// It has no code, or was not compiled.
    Unknown,
    /// These of the coverage may be the file.
    Several(Vec<&'c str>),
    /// This path of the coverage may also be another file of the patch or the repository.
    Vague(&'c str),
}

/// Directories and names that tell files apart.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Where the files of the patch may be, such as the top of the repository.
    pub dirs: Vec<PathBuf>,
    /// All files of the repository, if they are known, without line breaks in their names.
    pub tree: BTreeSet<String>,
}

/// A path of the coverage that may be a file.
struct Candidate<'c> {
    name: String,
    path: &'c str,
    /// Part of the path before the name, if it is absolute.
    dir: Option<PathBuf>,
}

/// Returns a name without line breaks, which tracefiles cannot have.
pub(super) fn in_a_line(name: &str) -> Cow<'_, str> {
    match name.contains(['\n', '\r']) {
        true => name.replace(['\n', '\r'], "").into(),
        false => name.into(),
    }
}

/// Returns the directory before a name at the end of a path.
fn before(path: &Path, name: &Path) -> Option<PathBuf> {
    let dir = path.ancestors().nth(name.components().count())?;
    (dir.is_absolute() && path.ends_with(name)).then(|| dir.to_owned())
}

/// Paths of coverage by the names of their files.
type Paths<'c> = HashMap<String, Vec<&'c str>>;

fn last(path: &str) -> Cow<'_, str> {
    in_a_line(path.rsplit_once('/').map_or(path, |(_, last)| last))
}

impl Places {
    /// Returns true if a longer end of the path is a file of the repository.
    fn is_other(&self, path: &str, name: &str) -> bool {
        let (path, name) = (in_a_line(path), in_a_line(name));
        let ends = path
            .match_indices('/')
            .filter_map(|(at, _)| path.get(at + 1..));
        let mut longer = ends.filter(|end| end.len() > name.len());
        longer.any(|end| self.tree.contains(end))
    }

    /// Returns the paths that may be a file with that name.
    fn candidates<'c>(&self, name: &str, paths: &Paths<'c>) -> Vec<Candidate<'c>> {
        let plain = in_a_line(name);
        let own = Path::new(&*plain);
        let same = paths.get(&*last(name)).into_iter().flatten();
        let found = same.filter(|path| {
            let path = in_a_line(path);
            let path = Path::new(&*path);
            path.ends_with(own) || own.ends_with(path)
        });
        let found = found.map(|path| Candidate {
            name: name.to_owned(),
            path,
            dir: before(Path::new(&*in_a_line(path)), own),
        });
        let found: Vec<_> = found.filter(|one| !self.is_other(one.path, name)).collect();
        let is_named = |one: &Candidate| one.dir.as_ref().is_some_and(|d| self.dirs.contains(d));
        match found.iter().any(is_named) {
            true => found.into_iter().filter(is_named).collect(),
            false => found,
        }
    }

    /// Finds the files of a patch, in their order.
    pub fn find<'c>(&self, files: &[Changed], coverage: &'c Coverage) -> Vec<Found<'c>> {
        let mut paths = Paths::new();
        for path in coverage.files.keys() {
            paths.entry(last(path).into_owned()).or_default().push(path);
        }
        let candidates = files.iter().map(|file| {
            let mut by_name = file.names.iter().map(|name| self.candidates(name, &paths));
            by_name.find(|found| !found.is_empty()).unwrap_or_default()
        });
        let candidates: Vec<_> = candidates.collect();
        let all = candidates.iter().flatten();
        let dirs: BTreeSet<PathBuf> = all.filter_map(|one| one.dir.clone()).collect();
        // With /b for one file, /b/arch/x86/kernel/time.c is not kernel/time.c.
        let is_below = |one: &Candidate| {
            let mut above = one.dir.iter().flat_map(|dir| dir.ancestors().skip(1));
            above.any(|above| dirs.contains(above))
        };
        let found = candidates.into_iter().map(|mut found| {
            found.retain(|one| !is_below(one));
            match &found[..] {
                [] => Found::Unknown,
                [one] if self.is_vague(one, files) => Found::Vague(one.path),
                [one] => Found::Known {
                    name: one.name.clone(),
                    path: one.path,
                },
                several => Found::Several(several.iter().map(|one| one.path).collect()),
            }
        });
        found.collect()
    }

    /// Returns true if a path that is shorter than the name is the end of other names, too.
    fn is_vague(&self, one: &Candidate, files: &[Changed]) -> bool {
        let path = in_a_line(one.path);
        if path.len() >= in_a_line(&one.name).len() {
            return false;
        }
        let names = files.iter().filter_map(|file| file.names.first());
        let names: BTreeSet<&String> = names.chain(&self.tree).collect();
        let ends = |name: &&&String| Path::new(&*in_a_line(name)).ends_with(&*path);
        names.iter().filter(ends).count() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::coverage::File;
    use super::*;

    fn find(paths: &[&str], names: &[&str], places: &Places) -> Vec<String> {
        let mut coverage = Coverage::default();
        for path in paths {
            coverage.add((*path).to_owned(), File::default());
        }
        let changed = |name: &&str| Changed {
            names: name.split('|').map(str::to_owned).collect(),
            lines: Vec::new(),
        };
        let files: Vec<_> = names.iter().map(changed).collect();
        let found = places.find(&files, &coverage);
        let said = found.into_iter().map(|found| match found {
            Found::Known { name, path } => format!("{name}={path}"),
            Found::Unknown => "-".to_owned(),
            Found::Several(several) => several.join(" or "),
            Found::Vague(path) => format!("{path}?"),
        });
        said.collect()
    }

    #[test]
    fn the_one_ends_with_the_other() {
        let places = Places::default();
        let paths = ["/b/fs/pipe.c", "lib/sort.c", "/b/xfs/file.c", "odd.c"];
        let names = [
            "fs/pipe.c",
            "lib/sort.c",
            "fs/file.c",
            "a/odd.c",
            "b/fs/no.c",
        ];
        let found = find(&paths, &names, &places);
        let expected = [
            "fs/pipe.c=/b/fs/pipe.c",
            "lib/sort.c=lib/sort.c",
            "-",
            "a/odd.c=odd.c",
            "-",
        ];
        assert_eq!(found, expected);
        let names = ["linux/fs/pipe.c|fs/pipe.c"];
        assert_eq!(find(&paths, &names, &places), ["fs/pipe.c=/b/fs/pipe.c"]);
    }

    #[test]
    fn directories_tell_files_apart() {
        let paths = [
            "/b/kernel/time.c",
            "/b/arch/x86/kernel/time.c",
            "/b/fs/pipe.c",
        ];
        let none = Places::default();
        assert_eq!(
            find(&paths, &["kernel/time.c"], &none),
            ["kernel/time.c=/b/kernel/time.c"]
        );
        // The file itself is not compiled.
        assert_eq!(
            find(&paths[1..], &["fs/pipe.c", "kernel/time.c"], &none),
            ["fs/pipe.c=/b/fs/pipe.c", "-"]
        );
        let tree = ["kernel/time.c", "arch/x86/kernel/time.c"].map(str::to_owned);
        let mut places = Places {
            tree: tree.into(),
            ..Places::default()
        };
        assert_eq!(find(&paths[1..2], &["kernel/time.c"], &places), ["-"]);
        let two = ["/b/fs/pipe.c", "/c/fs/pipe.c"];
        assert_eq!(
            find(&two, &["fs/pipe.c"], &places),
            ["/b/fs/pipe.c or /c/fs/pipe.c"]
        );
        places.dirs.push("/c".into());
        assert_eq!(
            find(&two, &["fs/pipe.c"], &places),
            ["fs/pipe.c=/c/fs/pipe.c"]
        );
    }

    #[test]
    fn paths_that_are_too_short() {
        let mut places = Places::default();
        let (paths, names) = (["main.c"], ["init/main.c", "kernel/main.c"]);
        assert_eq!(find(&paths, &names, &places), ["main.c?", "main.c?"]);
        assert_eq!(find(&paths, &names[..1], &places), ["init/main.c=main.c"]);
        places.tree = names.map(str::to_owned).into();
        assert_eq!(find(&paths, &names[..1], &places), ["main.c?"]);
    }

    #[test]
    fn names_with_line_breaks() {
        let places = Places::default();
        let paths = ["/b/ab.c", "/b/x\ny.c"];
        let found = find(&paths, &["a\nb.c", "x\ny.c"], &places);
        assert_eq!(found, ["a\nb.c=/b/ab.c", "x\ny.c=/b/x\ny.c"]);
    }
}
