// SPDX-License-Identifier: GPL-2.0

//! The counters of the running kernel: the directory `gcov` of debugfs.

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use super::dump;
use super::dump::Object;
use super::error::Error;
use super::error::Result;
use super::error::io as refused;
use super::paths::plain;
use super::profile::is_profile;

/// The file with all counters.
const ALL: &str = "vmlinux";
/// The file of the kernel's own gcov that resets all counters.
const RESET: &str = "reset";

/// `gcov` in debugfs.
#[derive(Clone, Debug)]
pub struct Control {
    dir: PathBuf,
}

impl Control {
    /// Names the directory. Nothing is opened yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The file with all counters.
    pub fn all(&self) -> PathBuf {
        self.dir.join(ALL)
    }

    /// The file in the tree that stands for one on the disk.
    pub fn file(&self, path: &Path) -> PathBuf {
        let path = plain(path);
        self.dir.join(path.strip_prefix("/").unwrap_or(&path))
    }

    /// Reads all counters.
    pub fn read(&self) -> Result<Vec<Object>> {
        let path = self.all();
        let file = File::open(&path).map_err(|error| self.absent(&path, error))?;
        read(file, &path)
    }

    /// Sets all counters to 0.
    pub fn reset_all(&self) -> Result<()> {
        let all = self.all();
        match write_zero(&all) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let reset = self.dir.join(RESET);
                write_zero(&reset).map_err(|error| self.absent(&reset, error))
            }
            other => other.map_err(refused("write", &all)),
        }
    }

    /// Sets the counters of an object to 0.
    pub fn reset(&self, object: &Path) -> Result<()> {
        let path = self.file(object);
        write_zero(&path).map_err(refused("write", &path))
    }

    /// The objects that have a file in the tree, as they are called in a dump.
    pub fn objects(&self) -> Result<Vec<PathBuf>> {
        let mut objects = Vec::new();
        let entries = fs::read_dir(&self.dir).map_err(|error| self.absent(&self.dir, error))?;
        let mut open = vec![(self.dir.clone(), entries)];
        while let Some((dir, entries)) = open.last_mut() {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            let entry = entry.map_err(refused("read", dir))?;
            let path = entry.path();
            // Links lead out of the tree. What goes meanwhile, with its module, is not there.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    if let Ok(entries) = fs::read_dir(&path) {
                        open.push((path, entries));
                    }
                }
                Ok(kind) if kind.is_file() && path.extension() == Some(OsStr::new("gcda")) => {
                    let name = path.strip_prefix(&self.dir).unwrap_or(&path);
                    objects.push(Path::new("/").join(name));
                }
                // Which is named without a slash.
                Ok(kind) if kind.is_file() && is_profile(&path) => {
                    objects.push(path.file_name().unwrap_or_default().into());
                }
                _ => (),
            }
        }
        objects.sort_unstable();
        Ok(objects)
    }

    /// The first bytes of an object's file in the tree. `None` if it has none, which is so for an object whose module has
    /// gone since.
    pub fn start(&self, object: &Path, len: usize) -> Option<Vec<u8>> {
        let mut start = vec![0; len];
        let mut file = File::open(self.file(object)).ok()?;
        file.read_exact(&mut start).ok()?;
        Some(start)
    }

    /// Why a file is not there.
    fn absent(&self, path: &Path, error: io::Error) -> Error {
        if !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ) {
            return refused("open", path)(error);
        }
        let dir = self.dir.clone();
        if dir.is_dir() {
            return Error::NoDump(dir);
        }
        let debugfs = match self.dir.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => return Error::NoGcov(dir),
        };
        // Where debugfs is not mounted there is an empty directory, or none.
        let empty = fs::read_dir(debugfs).map_or(true, |mut entries| entries.next().is_none());
        if empty {
            let debugfs = debugfs.to_owned();
            Error::NoDebugfs { dir, debugfs }
        } else {
            Error::NoGcov(dir)
        }
    }
}

/// Files in debugfs cannot be truncated, and need not be.
fn write_zero(path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).open(path)?;
    file.write_all(b"0")
}

/// Reads a dump.
pub fn read(from: impl Read, path: &Path) -> Result<Vec<Object>> {
    let objects = dump::read(BufReader::with_capacity(64 << 10, from)).map_err(|source| {
        let path = path.to_owned();
        Error::Dump { path, source }
    })?;
    if objects.is_empty() {
        return Err(Error::Empty(path.to_owned()));
    }
    Ok(objects)
}
