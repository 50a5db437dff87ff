// SPDX-License-Identifier: GPL-2.0

//! What LLVM counts in Rust code: the raw profile of the image, and of each module.
//!
//! A dump has the counters only. The rest of a profile is the same as long as the kernel runs, and is read from its file
//! in debugfs; what the counters mean is in the image or module ([`super::binaries`]).

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;

use super::binaries::Binaries;
use super::control::Control;
use super::dump::Object;
use super::error::Problem;
use super::error::Result;
use super::error::Unfit;
use super::error::io as refused;

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

/// Whether an object is Rust code, and not what a `.gcda` file has.
pub fn is_profile(name: &Path) -> bool {
    name.extension() == Some(OsStr::new("profraw"))
}

fn word(profile: &[u8], index: usize) -> Option<usize> {
    let bytes = profile.get(index * 8..)?.first_chunk::<8>()?;
    usize::try_from(u64::from_le_bytes(*bytes)).ok()
}

/// Where a raw profile has its counters: after a header of 16 words and records of 64 bytes. The fourth word says how many records,
/// the sixth how many counters.
fn counters(profile: &[u8]) -> Option<Range<usize>> {
    const HEADER: usize = 16 * 8;
    let start = word(profile, 3)?.checked_mul(64)?.checked_add(HEADER)?;
    let end = word(profile, 5)?.checked_mul(8)?.checked_add(start)?;
    (end <= profile.len()).then_some(start..end)
}

/// The names of functions, which come after the counters, and after the bits, whose number is the eighth word.
fn names(profile: &[u8]) -> Option<&[u8]> {
    let bits = word(profile, 7)?.checked_next_multiple_of(8)?;
    let start = counters(profile)?.end.checked_add(bits)?;
    profile.get(start..)?.get(..word(profile, 9)?)
}

/// Whether a file has these bytes.
fn contains(file: &[u8], bytes: &[u8]) -> bool {
    bytes.is_empty() || file.windows(bytes.len()).any(|part| part == bytes)
}

/// Puts counters in the place of those of a profile. `None` if it has others.
fn replace(mut profile: Vec<u8>, new: &[u64]) -> Option<Vec<u8>> {
    let range = counters(&profile)?;
    let places = profile.get_mut(range)?;
    if places.len() != new.len().checked_mul(8)? {
        return None;
    }
    for (place, counter) in places.chunks_exact_mut(8).zip(new) {
        place.copy_from_slice(&counter.to_le_bytes());
    }
    Some(profile)
}

fn prepare(
    object: &Object,
    binaries: &Binaries,
    live: Option<&Control>,
) -> std::result::Result<Profile, Unfit> {
    let name = object.path();
    let live = live.ok_or(Unfit::NotRunning)?;
    let profile = fs::read(live.file(name)).map_err(|_| Unfit::Gone)?;
    let data = replace(profile, &object.counters).ok_or(Unfit::Gone)?;
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    let binary = binaries
        .find(&stem)
        .map_err(|looked| Unfit::NoBinary { looked })?;
    // A file of the same build has the same functions.
    let file = fs::read(binary).unwrap_or_default();
    if !names(&data).is_some_and(|names| contains(&file, names)) {
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
pub fn export(profiles: &[Profile], dir: &Path) -> Result<()> {
    for profile in profiles {
        let path = dir.join(profile.name.file_name().unwrap_or_default());
        fs::write(&path, &profile.data).map_err(refused("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(records: u64, counters: &[u64]) -> Vec<u8> {
        let mut words = [7_u64; 16];
        words[3] = records;
        words[5] = counters.len().try_into().unwrap();
        words[7] = 3;
        words[9] = 4;
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(vec![0x55; usize::try_from(records).unwrap() * 64]);
        bytes.extend(counters.iter().flat_map(|counter| counter.to_le_bytes()));
        bytes.extend(*b"bit\0\0\0\0\0namepadd");
        bytes
    }

    #[test]
    fn replaced() {
        let old = profile(2, &[1, 2, 3]);
        assert_eq!(
            replace(old.clone(), &[4, 0, u64::MAX]),
            Some(profile(2, &[4, 0, u64::MAX]))
        );
        assert_eq!(replace(old.clone(), &[4, 0]), None);
        assert_eq!(replace(old[..128 + 128 + 23].to_vec(), &[4, 0, 1]), None);
        assert_eq!(
            replace(
                {
                    let mut bytes = profile(0, &[1]);
                    bytes[24..32].fill(0xff);
                    bytes
                },
                &[1]
            ),
            None
        );
        assert_eq!(replace(Vec::new(), &[]), None);
        assert_eq!(names(&old), Some(&b"name"[..]));
        assert_eq!(names(&old[..old.len() - 5]), None);
        assert!(contains(b"a name", b"name") && !contains(b"a nam", b"name"));
        assert!(is_profile(Path::new("a.profraw")) && !is_profile(Path::new("a.gcda")));
    }
}
