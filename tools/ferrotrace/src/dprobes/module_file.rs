// SPDX-License-Identifier: GPL-2.0

//! The file that a module of the kernel is loaded from.

#![deny(unsafe_code)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// The type of a note with a build ID.
const NT_GNU_BUILD_ID: usize = 3;

/// Why it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoFile {
    /// There is no list of modules there.
    NoList(PathBuf),
    /// The list in this directory does not have it.
    NotListed(PathBuf),
    /// It is compressed.
    Compressed(PathBuf),
}

/// Where the modules of the running kernel are.
pub fn directory() -> PathBuf {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Path::new("/lib/modules").join(release.trim())
}

/// The name that the kernel gives to the module of a file, if it is one, and whether it is compressed.
fn name_of(path: &str) -> Option<(String, bool)> {
    let file = path.rsplit('/').next()?;
    let (name, rest) = file.split_once(".ko")?;
    Some((name.replace('-', "_"), !rest.is_empty()))
}

/// Looks for a module in the list of a directory, which `depmod` makes.
pub fn find(directory: &Path, module: &str) -> Result<PathBuf, NoFile> {
    let list = directory.join("modules.dep");
    let Ok(text) = fs::read_to_string(&list) else {
        return Err(NoFile::NoList(list));
    };
    let wanted = module.replace('-', "_");
    let files = text.lines().filter_map(|line| line.split(':').next());
    let mut found = files.filter_map(|file| {
        let (name, is_compressed) = name_of(file)?;
        // Absolute ones stay as they are.
        (name == wanted).then(|| (directory.join(file), is_compressed))
    });
    match found.next() {
        None => Err(NoFile::NotListed(directory.into())),
        Some((path, true)) => Err(NoFile::Compressed(path)),
        Some((path, false)) => Ok(path),
    }
}

/// The build ID of a module that is loaded, or of the kernel, if that tells. `root` is where the system's files are.
pub fn running_build_id(root: &Path, module: Option<&str>) -> Option<Vec<u8>> {
    let path = match module {
        Some(module) => {
            let module = module.replace('-', "_");
            format!("sys/module/{module}/notes/.note.gnu.build-id")
        }
        None => "sys/kernel/notes".to_owned(),
    };
    build_id(&fs::read(root.join(path)).ok()?)
}

/// The build ID among notes. Each has the lengths of its name and of what it is about, its type, and these two.
fn build_id(mut bytes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let word = |at: usize| {
            let bytes = bytes.get(at..)?.first_chunk()?;
            usize::try_from(u32::from_le_bytes(*bytes)).ok()
        };
        let (name, len, kind) = (word(0)?, word(4)?, word(8)?);
        let start = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = start.checked_add(len)?;
        let text = bytes.get(start..end)?;
        if kind == NT_GNU_BUILD_ID && bytes.get(12..)?.starts_with(b"GNU\0") {
            return Some(text.to_vec());
        }
        bytes = bytes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let dir = std::env::temp_dir().join(format!("dprobes_modules.{}", std::process::id()));
        assert_eq!(
            find(&dir, "one"),
            Err(NoFile::NoList(dir.join("modules.dep")))
        );
        fs::create_dir_all(&dir).unwrap();
        let list = "kernel/fs/one-of-them.ko: kernel/lib/two.ko\n\
                    kernel/lib/two.ko:\nkernel/lib/three.ko.xz: kernel/lib/two.ko\n/abs/four.ko:\n";
        fs::write(dir.join("modules.dep"), list).unwrap();
        let at = |path: &str| Ok(dir.join(path));
        assert_eq!(find(&dir, "one_of_them"), at("kernel/fs/one-of-them.ko"));
        assert_eq!(find(&dir, "two"), at("kernel/lib/two.ko"));
        assert_eq!(find(&dir, "four"), Ok(PathBuf::from("/abs/four.ko")));
        assert_eq!(
            find(&dir, "three"),
            Err(NoFile::Compressed(dir.join("kernel/lib/three.ko.xz")))
        );
        assert_eq!(find(&dir, "one"), Err(NoFile::NotListed(dir.clone())));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn notes() {
        let mut bytes = b"\x06\0\0\0\x01\0\0\0\x03\0\0\0Linux\0\0\0\x09\0\0\0".to_vec();
        let first = bytes.len();
        for word in [4u32, 3, 3] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"GNU\0\x01\x02\x03\x00");
        assert_eq!(build_id(&bytes), Some(vec![1, 2, 3]));
        assert_eq!(build_id(&bytes[first..]), Some(vec![1, 2, 3]));
        assert_eq!(build_id(&bytes[..first + 18]), None);
        assert_eq!(build_id(&bytes[..first]), None);
        assert_eq!(build_id(b""), None);
        assert_eq!(build_id(&[0xff; 40]), None);
    }
}
