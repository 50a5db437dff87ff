// SPDX-License-Identifier: GPL-2.0

//! `.gcda` files, each with a link to its `.gcno` file, for gcov, lcov and gcovr.

#![deny(unsafe_code)]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;

use super::error::Error;
use super::error::Result;
use super::error::io as refused;
use super::locate::notes_of;
use super::objects::Ready;
use super::paths::plain;

/// Where the file of an object goes. A dump may come from anywhere: its names do not lead out of the directory.
fn place(dir: &Path, name: &Path) -> PathBuf {
    let name = plain(&Path::new("/").join(name));
    dir.join(name.strip_prefix("/").unwrap_or(&name))
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(refused("create", path))
}

/// Creates the directory, or sees to it that it is empty.
fn prepare(dir: &Path, force: bool) -> Result<()> {
    make_dir(dir)?;
    let mut entries = fs::read_dir(dir).map_err(refused("read", dir))?;
    match entries.next() {
        Some(_) if !force => Err(Error::NotEmpty(dir.to_owned())),
        _ => Ok(()),
    }
}

/// Replaces what is there.
fn link(to: &Path, at: &Path) -> Result<()> {
    let to = fs::canonicalize(to).map_err(refused("find", to))?;
    match fs::remove_file(at) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(refused("remove", at)(error));
        }
        _ => (),
    }
    symlink(&to, at).map_err(refused("create", at))
}

/// Writes the files below `dir`, where their names say.
pub fn export(objects: &[Ready], dir: &Path, force: bool) -> Result<()> {
    prepare(dir, force)?;
    for object in objects {
        let place = place(dir, &object.name);
        make_dir(place.parent().unwrap_or(dir))?;
        fs::write(&place, &object.data).map_err(refused("write", &place))?;
        link(&object.path, &notes_of(&place))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let place = |name: &str| place(Path::new("out"), Path::new(name));
        for (name, expected) in [
            ("/b/a.gcda", "out/b/a.gcda"),
            ("b//./a.gcda", "out/b/a.gcda"),
            ("/b/../c/a.gcda", "out/c/a.gcda"),
            ("/../../a.gcda", "out/a.gcda"),
            ("../a.gcda", "out/a.gcda"),
        ] {
            assert_eq!(place(name), Path::new(expected), "{name}");
        }
    }
}
