// SPDX-License-Identifier: GPL-2.0

//! The file through which functions are traced, as long as it is open.

#![deny(unsafe_code)]

use std::fmt::Write as _;
use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;

use super::error::Error;
use super::error::Result;
use crate::file::IoError;

/// Addresses of a line, of which the kernel takes 64 KiB.
const AT_ONCE: usize = 2000;

/// Counts from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that the channel had no room for.
    pub lost: u64,
    /// Calls that could not be followed to their return.
    pub missed: u64,
}

/// `ferrotrace_ftrace_functions/control` in debugfs, open. What is traced ends when it is closed.
#[derive(Debug)]
pub struct Control {
    dir: PathBuf,
    file: Flock<File>,
}

impl Control {
    /// Opens the file, unless another process has it.
    pub fn open(dir: PathBuf) -> Result<Self> {
        let path = dir.join("control");
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| refused(&dir, "open", error))?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let file = file.map_err(|(_, errno)| match errno {
            Errno::EAGAIN => Error::Busy,
            _ => refused(&dir, "lock", errno.into()),
        })?;
        Ok(Self { dir, file })
    }

    /// The channel of the calls, without the number of the CPU.
    pub fn channel(&self) -> PathBuf {
        self.dir.join("cpu")
    }

    /// Has the functions at these addresses traced: timed, or only counted.
    pub fn start(&mut self, addresses: &[u64], timed: bool) -> Result<()> {
        for part in addresses.chunks(AT_ONCE) {
            let mut line = "+".to_owned();
            for address in part {
                // Writing to a string does not fail.
                let _ = write!(line, " {address:#x}");
            }
            self.write(&line)?;
        }
        self.write(if timed { "time" } else { "count" })
    }

    /// Ends it. What was written before is in the channel when this returns.
    pub fn stop(&mut self) -> Result<()> {
        self.write("stop")
    }

    /// Returns the losses since the start.
    pub fn counts(&self) -> Result<Counts> {
        let mut bytes = [0; 256];
        let len = self.file.read_at(&mut bytes, 0);
        let len = len.map_err(|error| refused(&self.dir, "read", error))?;
        let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned();
        parse(&text).ok_or_else(|| Error::Parse {
            path: self.dir.join("control"),
            line: 1,
            text,
        })
    }

    /// Writes one line, in one `write()`.
    fn write(&mut self, line: &str) -> Result<()> {
        let error = match self.file.write(line.as_bytes()) {
            Ok(taken) if taken == line.len() => return Ok(()),
            Ok(_) => Errno::EIO.into(),
            Err(error) => error,
        };
        Err(match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EBUSY) => Error::Busy,
            Some(Errno::ENOENT) => Error::Gone,
            _ => refused(&self.dir, "write to", error),
        })
    }
}

/// The value of a key in `key=value key=value ...`.
fn field(text: &str, key: &str) -> Option<u64> {
    let words = text.split_ascii_whitespace();
    let mut values = words.filter_map(|word| word.split_once('='));
    values.find(|(name, _)| *name == key)?.1.parse().ok()
}

fn parse(text: &str) -> Option<Counts> {
    Some(Counts {
        lost: field(text, "lost")?,
        missed: field(text, "missed")?,
    })
}

fn refused(dir: &Path, action: &'static str, source: io::Error) -> Error {
    let path = dir.join("control");
    match source.kind() {
        io::ErrorKind::PermissionDenied => Error::Denied(path),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => absent(dir),
        _ => Error::Io(IoError {
            action,
            path,
            source,
        }),
    }
}

/// Why there is no file.
fn absent(dir: &Path) -> Error {
    let parent = dir.parent().unwrap_or(Path::new("/"));
    // Where debugfs is not mounted there is an empty directory, or none.
    match fs::read_dir(parent).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Error::NoModule(dir.to_owned()),
        _ => Error::NoDebugfs(parent.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("ferrotrace_ftrace_functions");
        let error = || Control::open(absent.clone()).unwrap_err();
        assert!(matches!(error(), Error::NoDebugfs(_)));
        fs::create_dir(dir.path().join("other")).unwrap();
        assert!(matches!(error(), Error::NoModule(_)));
        assert!(
            error()
                .to_string()
                .contains("modprobe ferrotrace_ftrace_functions")
        );
    }

    #[test]
    fn a_directory_like_the_kernels() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        fs::write(&path, "").unwrap();
        let mut control = Control::open(dir.path().into()).unwrap();
        assert!(matches!(Control::open(dir.path().into()), Err(Error::Busy)));
        control.start(&[0x10, 0xffff_ffff_8100_0000], true).unwrap();
        control.stop().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "+ 0x10 0xffffffff81000000timestop");
        assert!(matches!(control.counts(), Err(Error::Parse { .. })));
    }

    #[test]
    fn many_addresses_are_several_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        fs::write(&path, "").unwrap();
        let mut control = Control::open(dir.path().into()).unwrap();
        control
            .start(&vec![u64::MAX; 2 * AT_ONCE + 1], false)
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches('+').count(), 3);
        assert_eq!(text.matches("0xffffffffffffffff").count(), 2 * AT_ONCE + 1);
        assert!(text.ends_with("count"));
        assert!(text.split('+').all(|line| line.len() < 65536));
    }

    #[test]
    fn counts() {
        let text = "state=time functions=98 lost=3 missed=4\n";
        assert_eq!(parse(text), Some(Counts { lost: 3, missed: 4 }));
        assert_eq!(parse("state=time lost=3"), None);
        assert_eq!(parse("state=time lost=x missed=4"), None);
    }
}
