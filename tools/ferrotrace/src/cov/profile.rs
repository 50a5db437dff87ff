// SPDX-License-Identifier: GPL-2.0

//! What LLVM counts in Rust code: the raw profile of the image, and of each module.
//!
//! A dump has the counters only. The rest of a profile is the same as long as the kernel runs, and is read from its file
//! in debugfs; what the counters mean is in the image or module ([`super::binaries`]).

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use ferro_gcov_core::profile_names;
use ferro_gcov_core::set_profile_counters;

use super::binaries::Binaries;
use super::control::Control;
use super::dump::Object;
use super::error::Problem;
use super::error::Result;
use super::error::Unfit;
use super::error::io as refused;
use crate::directory::Directory;

/// A profile that LLVM's programs can read.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its file in debugfs.
    pub name: PathBuf,
    /// The image or module that it is of.
    pub binary: PathBuf,
    /// The contents of the file.
    pub data: Vec<u8>,
}

/// Returns true if an object is Rust code, with a profile instead of a `.gcda` file.
pub fn is_profile(name: &Path) -> bool {
    name.extension() == Some(OsStr::new("profraw"))
}

/// Returns true if a file contains these bytes.
fn contains(file: &[u8], bytes: &[u8]) -> bool {
    bytes.is_empty() || file.windows(bytes.len()).any(|part| part == bytes)
}

fn prepare(
    object: &Object,
    binaries: &Binaries,
    live: Option<&Control>,
) -> std::result::Result<Profile, Unfit> {
    let name = object.path();
    let live = live.ok_or(Unfit::NotRunning)?;
    let mut data = fs::read(live.file(name)).map_err(|_| Unfit::Gone)?;
    set_profile_counters(&mut data, &object.counters).map_err(|_| Unfit::Gone)?;
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    let binary = binaries
        .find(&stem)
        .map_err(|looked| Unfit::NoBinary { looked })?;
    // A file of the same build has the same functions.
    let file = fs::read(binary).unwrap_or_default();
    if !profile_names(&data).is_some_and(|names| contains(&file, names)) {
        return Err(Unfit::Build {
            path: binary.to_owned(),
        });
    }
    Ok(Profile {
        name: name.to_owned(),
        binary: binary.to_owned(),
        data,
    })
}

/// Finds what belongs to profiles.
pub fn ready(
    objects: &[&Object],
    binaries: &Binaries,
    live: Option<&Control>,
) -> (Vec<Profile>, Vec<Problem>) {
    let (mut ready, mut problems) = (Vec::new(), Vec::new());
    for object in objects {
        match prepare(object, binaries, live) {
            Ok(profile) => ready.push(profile),
            Err(what) => problems.push(Problem {
                object: object.path().to_owned(),
                what,
            }),
        }
    }
    (ready, problems)
}

/// Writes the profiles into a directory.
pub fn export(profiles: &[Profile], dir: &Directory) -> Result<()> {
    for profile in profiles {
        let name = profile.name.file_name().unwrap_or_default();
        let written = dir.write(name, &profile.data);
        written.map_err(refused("write", &dir.path().join(name)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_are() {
        assert!(is_profile(Path::new("a.profraw")) && !is_profile(Path::new("a.gcda")));
        assert!(contains(b"a name", b"name") && !contains(b"a nam", b"name"));
    }
}
