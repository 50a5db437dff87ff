// SPDX-License-Identifier: GPL-2.0

//! The file that a module of the kernel is loaded from.

#![deny(unsafe_code)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

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

/// The build ID of a module that is loaded, if the kernel tells.
pub fn loaded_build_id(module: &str) -> Option<Vec<u8>> {
    let path = format!("/sys/module/{module}/notes/.note.gnu.build-id");
    note(&fs::read(path).ok()?)
}

/// What a note is about: after the lengths of its name and of that, its type, and its name.
fn note(bytes: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let start = 12usize.checked_add(word(0)?.checked_next_multiple_of(4)?)?;
    let end = start.checked_add(word(4)?)?;
    bytes.get(start..end).map(<[u8]>::to_vec)
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
        let mut bytes = Vec::new();
        for word in [4u32, 3, 3] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"GNU\0\x01\x02\x03\x00");
        assert_eq!(note(&bytes), Some(vec![1, 2, 3]));
        assert_eq!(note(&bytes[..18]), None);
        assert_eq!(note(b""), None);
        assert_eq!(note(&[0xff; 40]), None);
    }
}
