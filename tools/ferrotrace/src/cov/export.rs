// SPDX-License-Identifier: GPL-2.0

//! `.gcda` files, each with a link to its `.gcno` file, for gcov, lcov and gcovr.

#![deny(unsafe_code)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::error::Result;
use super::error::io as refused;
use super::locate::notes_of;
use super::objects::Ready;
use super::paths::plain;
use crate::directory::Directory;

/// Returns where the file of an object goes, below a directory. A dump may come from anywhere: its
/// names do not lead out of it.
fn place(name: &Path) -> PathBuf {
    let name = plain(&Path::new("/").join(name));
    name.strip_prefix("/").map(Path::to_owned).unwrap_or(name)
}

/// Writes the files below `dir`, where their names say.
pub fn export(objects: &[Ready], dir: &Directory) -> Result<()> {
    for object in objects {
        let place = place(&object.name);
        let path = dir.path().join(&place);
        let (data, notes) = (place.file_name(), notes_of(&place));
        let (Some(data), Some(notes)) = (data, notes.file_name()) else {
            continue;
        };
        let to = fs::canonicalize(&object.path).map_err(refused("find", &object.path))?;
        let write = |dir: &Directory| {
            dir.write(data, &object.data)?;
            dir.link(&to, notes)
        };
        let parents = place.parent().unwrap_or(Path::new("")).iter();
        let mut at = None;
        for name in parents {
            let next = at.as_ref().unwrap_or(dir).subdirectory(name);
            at = Some(next.map_err(refused("create the directory of", &path))?);
        }
        write(at.as_ref().unwrap_or(dir)).map_err(refused("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (name, expected) in [
            ("/b/a.gcda", "b/a.gcda"),
            ("b//./a.gcda", "b/a.gcda"),
            ("/b/../c/a.gcda", "c/a.gcda"),
            ("/../../a.gcda", "a.gcda"),
            ("../a.gcda", "a.gcda"),
        ] {
            assert_eq!(place(Path::new(name)), Path::new(expected), "{name}");
        }
    }
}
