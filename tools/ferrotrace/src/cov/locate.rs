// SPDX-License-Identifier: GPL-2.0

//! Where the `.gcno` files are: beside the name that the object has, below another directory to which the build went, or
//! where the running kernel's link leads.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::control::Control;

/// A directory that has the files of a build that ran in another.
#[derive(Clone, Debug)]
struct Tree {
    dir: PathBuf,
    /// The other: the start of the names for which the directory stands.
    built: PathBuf,
}

/// Finds notes.
#[derive(Clone, Debug)]
pub struct Locator {
    trees: Vec<Tree>,
    control: Option<Control>,
}

impl Tree {
    fn path(&self, name: &Path) -> Option<PathBuf> {
        Some(self.dir.join(name.strip_prefix(&self.built).ok()?))
    }

    /// Takes the directory with which most files are found; the highest, if there are several.
    fn fit(dir: &Path, names: &[PathBuf]) -> Self {
        let mut found: BTreeMap<&Path, usize> = BTreeMap::new();
        for name in names {
            for built in name.ancestors().skip(1) {
                let below = name.strip_prefix(built).map(|below| dir.join(below));
                let count = found.entry(built).or_default();
                *count += usize::from(below.is_ok_and(|path| path.is_file()));
            }
        }
        let (mut best, mut most) = (Path::new("/"), 0);
        for (built, count) in found {
            if count > most {
                (best, most) = (built, count);
            }
        }
        Self {
            dir: dir.to_owned(),
            built: best.to_owned(),
        }
    }
}

/// The `.gcno` file that belongs to a `.gcda` file.
pub fn notes_of(object: &Path) -> PathBuf {
    object.with_extension("gcno")
}

impl Locator {
    /// Looks for the notes of the objects below the directories, and then as the running kernel says, if it is that.
    pub fn new(dirs: &[PathBuf], control: Option<Control>, objects: &[&Path]) -> Self {
        let names: Vec<PathBuf> = objects.iter().map(|object| notes_of(object)).collect();
        let trees = dirs.iter().map(|dir| Tree::fit(dir, &names)).collect();
        Self { trees, control }
    }

    /// The notes of an object, or where they are not.
    pub fn find(&self, object: &Path) -> Result<PathBuf, Vec<PathBuf>> {
        let name = notes_of(object);
        let below = self.trees.iter().filter_map(|tree| tree.path(&name));
        let mut looked: Vec<PathBuf> = below.collect();
        looked.push(name.clone());
        looked.extend(self.control.iter().map(|control| control.file(&name)));
        let found = looked.iter().position(|path| path.is_file());
        match found {
            Some(at) => Ok(looked.swap_remove(at)),
            None => Err(looked),
        }
    }

    /// The objects of a module. The build leaves a file for each module that lists them, relative to the build's
    /// directory.
    pub fn module(&self, module: &str, objects: &[&Path]) -> Vec<PathBuf> {
        let found: Vec<(&Path, PathBuf)> = objects
            .iter()
            .filter_map(|object| Some((*object, self.find(object).ok()?)))
            .collect();
        let dirs: BTreeSet<&Path> = found
            .iter()
            .flat_map(|(_, notes)| notes.ancestors().skip(1))
            .collect();
        let names: BTreeSet<String> = [
            module.to_owned(),
            module.replace('_', "-"),
            module.replace('-', "_"),
        ]
        .into();
        let mut parts: Vec<PathBuf> = Vec::new();
        for dir in dirs {
            for name in &names {
                let list = fs::read_to_string(dir.join(format!("{name}.mod"))).unwrap_or_default();
                let files = list.split_whitespace();
                parts.extend(files.map(|file| Path::new(file).with_extension("gcno")));
            }
        }
        // An absolute name, of a module outside of the tree, is the end of itself.
        let is_part = |notes: &Path| {
            parts.iter().any(|part| {
                let part = part.strip_prefix(".").unwrap_or(part);
                notes.ends_with(part)
            })
        };
        let of_module = found.into_iter().filter(|(_, notes)| is_part(notes));
        of_module.map(|(object, _)| object.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn a_build_that_was_moved() {
        let root = TempDir::new().unwrap();
        let root = root.path();
        for file in ["kernel/fork.gcno", "lib/sort.gcno", "main.gcno"] {
            touch(&root.join(file));
        }
        let objects = [
            "/old/build/kernel/fork.gcda",
            "/old/build/lib/sort.gcda",
            "/old/other/main.gcda",
        ];
        let objects = objects.map(Path::new);
        let locator = Locator::new(&[root.to_owned()], None, &objects);
        assert_eq!(locator.find(objects[0]), Ok(root.join("kernel/fork.gcno")));
        assert_eq!(locator.find(objects[1]), Ok(root.join("lib/sort.gcno")));
        // Not the file of the same name that belongs to something else.
        assert_eq!(
            locator.find(objects[2]),
            Err(vec!["/old/other/main.gcno".into()])
        );
        let locator = Locator::new(&[root.join("none")], None, &objects);
        let looked = [
            "none/old/build/lib/sort.gcno".into(),
            "/old/build/lib/sort.gcno".into(),
        ];
        let looked = looked.map(|path: PathBuf| root.join(path));
        assert_eq!(locator.find(objects[1]), Err(looked.into()));
    }

    #[test]
    fn beside_and_by_the_kernels_link() {
        let root = TempDir::new().unwrap();
        let root = root.path();
        let beside = root.join("b/a.gcda");
        touch(&root.join("b/a.gcno"));
        touch(&root.join("gcov/gone/b.gcno"));
        let linked = Path::new("/gone/b.gcda");
        let control = Control::new(root.join("gcov"));
        let locator = Locator::new(&[], Some(control), &[&beside, linked]);
        assert_eq!(locator.find(&beside), Ok(root.join("b/a.gcno")));
        assert_eq!(locator.find(linked), Ok(root.join("gcov/gone/b.gcno")));
        assert_eq!(
            locator.find(Path::new("/gone/c.gcda")),
            Err(vec!["/gone/c.gcno".into(), root.join("gcov/gone/c.gcno")])
        );
    }

    #[test]
    fn modules() {
        let root = TempDir::new().unwrap();
        let root = root.path();
        let objects = [
            "drivers/a/x.gcda",
            "drivers/a/sub/y.gcda",
            "drivers/b/x.gcda",
        ];
        let objects = objects.map(|object| root.join(object));
        for object in &objects {
            touch(&notes_of(object));
        }
        fs::write(
            root.join("drivers/a/my-mod.mod"),
            "drivers/a/x.o\n./drivers/a/sub/y.o\n",
        )
        .unwrap();
        let paths: Vec<&Path> = objects.iter().map(PathBuf::as_path).collect();
        let locator = Locator::new(&[], None, &paths);
        for name in ["my_mod", "my-mod"] {
            assert_eq!(locator.module(name, &paths), objects[..2], "{name}");
        }
        assert_eq!(locator.module("mod", &paths), Vec::<PathBuf>::new());
    }
}
