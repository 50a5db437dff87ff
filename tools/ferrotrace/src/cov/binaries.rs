// SPDX-License-Identifier: GPL-2.0

//! Where the image and the modules of a kernel are: their files say what the counters of Rust code mean.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// The image, with its symbols.
const IMAGE: &str = "vmlinux";

/// The files that there are, by the names that the kernel gives them.
#[derive(Clone, Debug, Default)]
pub struct Binaries {
    files: HashMap<String, PathBuf>,
    looked: Vec<PathBuf>,
}

/// Returns the kernel's name of a module with this file name.
fn module_of(path: &Path) -> Option<String> {
    let is_module = path.extension() == Some(OsStr::new("ko"));
    let stem = path.file_stem().filter(|_| is_module)?;
    Some(stem.to_string_lossy().replace('-', "_"))
}

/// The directory of the kernel's build, of which there are objects.
fn build_of(objects: &[&Path]) -> Option<PathBuf> {
    let above = objects.iter().flat_map(|object| object.ancestors().skip(1));
    let mut builds = above.filter(|dir| dir.is_absolute() && dir.join(IMAGE).is_file());
    builds.next().map(Path::to_owned)
}

impl Binaries {
    /// Looks below the directories, and then where the kernel of a release was built, as the objects say or its modules' directory;
    /// the first file of a name counts. Modules that are built elsewhere are beside their objects.
    pub fn new(dirs: &[PathBuf], objects: &[&Path], release: Option<&str>) -> Self {
        let mut new = Self::default();
        let installed = release.map(|release| Path::new("/lib/modules").join(release));
        let others = objects.iter().filter_map(|object| object.parent());
        let below = dirs.iter().cloned();
        let below = below.chain(build_of(objects));
        for dir in below.chain(installed.iter().map(|dir| dir.join("build"))) {
            new.add_below(&dir);
        }
        for dir in others {
            new.add_in(dir);
        }
        if let (Some(dir), Some(release)) = (installed, release) {
            new.add_below(&dir);
            new.add(&Path::new("/usr/lib/debug/boot").join(format!("{IMAGE}-{release}")));
            new.add(&Path::new("/boot").join(format!("{IMAGE}-{release}")));
        }
        new
    }

    /// The file of the image (`vmlinux`) or of a module; where it was looked for, if there is none.
    pub fn find(&self, name: &str) -> Result<&Path, Vec<PathBuf>> {
        let found = self.files.get(name).map(PathBuf::as_path);
        found.ok_or_else(|| self.looked.clone())
    }

    fn add(&mut self, path: &Path) {
        let name = match path.file_name().and_then(OsStr::to_str) {
            Some(name) if name == IMAGE || name.starts_with("vmlinux-") => Some(IMAGE.to_owned()),
            _ => module_of(path),
        };
        if let Some(name) = name.filter(|_| path.is_file()) {
            self.files.entry(name).or_insert_with(|| path.to_owned());
        }
    }

    /// Adds the files of a directory, and returns its subdirectories. Unreadable directories have
    /// none.
    fn add_in(&mut self, dir: &Path) -> Vec<PathBuf> {
        let mut dirs = Vec::new();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(_) => self.add(&entry.path()),
                Err(_) => (),
            }
        }
        dirs
    }

    fn add_below(&mut self, dir: &Path) {
        if self.looked.iter().any(|looked| looked == dir) {
            return;
        }
        self.looked.push(dir.to_owned());
        let mut left = vec![dir.to_owned()];
        while let Some(dir) = left.pop() {
            left.extend(self.add_in(&dir));
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn found() {
        let root = TempDir::new().unwrap();
        let root = root.path();
        for file in [
            "b/vmlinux",
            "b/drivers/a-b.ko",
            "b/drivers/c.ko",
            "m/c.ko",
            "m/d.ko",
            "m/d.o",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let objects = [root.join("b/drivers/x.gcda"), root.join("m/d.gcda")];
        let objects: Vec<&Path> = objects.iter().map(PathBuf::as_path).collect();
        let binaries = Binaries::new(&[], &objects, None);
        for (name, file) in [
            ("vmlinux", "b/vmlinux"),
            ("a_b", "b/drivers/a-b.ko"),
            ("c", "b/drivers/c.ko"),
            ("d", "m/d.ko"),
        ] {
            assert_eq!(binaries.find(name), Ok(root.join(file).as_path()), "{name}");
        }
        assert_eq!(binaries.find("e"), Err(vec![root.join("b")]));
        // What the user names comes first.
        let binaries = Binaries::new(&[root.join("m")], &objects, None);
        assert_eq!(binaries.find("c"), Ok(root.join("m/c.ko").as_path()));
    }
}
