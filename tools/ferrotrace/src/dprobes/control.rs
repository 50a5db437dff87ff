// SPDX-License-Identifier: GPL-2.0

//! The file through which programs are loaded, removed and asked for.
//!
//! An open file is a session: what is read from it is the state after the session's last write, or why that was refused.

#![deny(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use ferro_dprobes_core::ModuleKind;
use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;

use super::error::Error;
use super::error::Result;
use super::lang::field::kind_of_name;
use super::state::BadLine;
use super::state::State;
use crate::file::IoError;
use crate::near::Names;

/// The name of the kernel's program, whatever a file calls it.
const KERNEL: &str = "vmlinux";

/// `ferrotrace_dprobes` in debugfs.
#[derive(Clone, Debug)]
pub struct Control {
    dir: PathBuf,
}

/// How the kernel names a program.
pub fn kernel_name(name: &str) -> &str {
    match kind_of_name(name) {
        ModuleKind::Kernel => KERNEL,
        _ => name,
    }
}

impl Control {
    /// Names the directory. Nothing is opened yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The channel of the records, without the number of the CPU.
    pub fn channel(&self) -> PathBuf {
        self.dir.join("cpu")
    }

    fn path(&self) -> PathBuf {
        self.dir.join("control")
    }

    fn open(&self) -> Result<File> {
        let file = File::options().read(true).write(true).open(self.path());
        file.map_err(|error| self.refused("open", error))
    }

    /// The programs that are loaded now.
    pub fn state(&self) -> Result<State> {
        self.read(&self.open()?)
    }

    /// Loads a set: all of it, or nothing. Returns the state after it.
    pub fn insert(&self, set: &[u8]) -> Result<State> {
        self.write("the programs", set)
    }

    /// Removes a program.
    pub fn remove(&self, name: &str) -> Result<State> {
        self.named("remove", name)
    }

    /// Removes all programs.
    pub fn remove_all(&self) -> Result<State> {
        self.write("to remove all programs", b"remove *\n")
    }

    /// Makes the local variables of a program 0: all, or those with these indexes. The state has what they were.
    pub fn reset(&self, name: &str, indexes: Option<&RangeInclusive<usize>>) -> Result<State> {
        self.named(&verb("reset", indexes), name)
    }

    /// Makes global variables 0.
    pub fn reset_globals(&self, indexes: Option<&RangeInclusive<usize>>) -> Result<State> {
        let line = verb("reset_globals", indexes);
        self.write("to reset the global variables", line.as_bytes())
    }

    /// Makes variables of all programs and global ones 0.
    pub fn reset_all(&self, indexes: Option<&RangeInclusive<usize>>) -> Result<State> {
        let line = verb("reset", indexes) + " *";
        self.write("to reset the variables", line.as_bytes())
    }

    /// Keeps others from reading the records, which only one process can do.
    pub fn lock(&self) -> Result<Flock<File>> {
        Flock::lock(self.open()?, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno
        {
            Errno::EAGAIN => Error::Watched,
            _ => self.refused("lock", errno.into()),
        })
    }

    fn named(&self, command: &str, name: &str) -> Result<State> {
        let name = kernel_name(name);
        let line = format!("{command} {name}\n");
        self.write(&format!("to {command} {name}"), line.as_bytes())
            .map_err(|error| match error {
                Error::Refused {
                    errno: Errno::ENOENT,
                    ..
                } => Error::NoProgram {
                    name: name.to_owned(),
                    others: Names(self.state().map(|state| state.names()).unwrap_or_default()),
                },
                other => other,
            })
    }

    /// Writes in one `write()`, and reads the answer.
    fn write(&self, what: &str, bytes: &[u8]) -> Result<State> {
        let mut file = self.open()?;
        match file.write(bytes) {
            Ok(taken) if taken == bytes.len() => self.read(&file),
            Ok(_) => Err(self.refused("write to", Errno::EIO.into())),
            Err(error) => {
                let answer = self.text(&file).unwrap_or_default();
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
                let said = answer
                    .lines()
                    .next()
                    .and_then(|line| line.strip_prefix("error: "));
                Err(Error::Refused {
                    what: what.to_owned(),
                    said: said.unwrap_or(errno.desc()).to_owned(),
                    errno,
                })
            }
        }
    }

    fn read(&self, file: &File) -> Result<State> {
        let text = self.text(file)?;
        State::parse(&text).map_err(|BadLine(line)| Error::State {
            path: self.path(),
            line,
            text: text
                .lines()
                .nth(line.saturating_sub(1))
                .unwrap_or_default()
                .to_owned(),
        })
    }

    /// All that the session says.
    fn text(&self, file: &File) -> Result<String> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let at = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            match file.read_at(&mut buffer, at) {
                Ok(0) => break,
                Ok(len) => bytes.extend(buffer.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(self.refused("read", error)),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn refused(&self, action: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::NotFound if !self.dir.parent().is_some_and(has_entries) => {
                Error::NoDebugfs(self.dir.clone())
            }
            io::ErrorKind::NotFound => Error::NoModule(self.dir.clone()),
            io::ErrorKind::PermissionDenied => Error::Denied(self.path()),
            _ => Error::Io(IoError {
                action,
                path: self.path(),
                source,
            }),
        }
    }
}

/// A command for all variables, or for those with these indexes.
fn verb(verb: &str, indexes: Option<&RangeInclusive<usize>>) -> String {
    match indexes {
        Some(range) => format!("{verb}[{}-{}]", range.start(), range.end()),
        None => verb.to_owned(),
    }
}

fn has_entries(dir: &std::path::Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::STATE;
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let error = |dir: PathBuf| Control::new(dir).state().unwrap_err();
        let absent = dir.path().join("ferrotrace_dprobes");
        assert!(matches!(error(absent.clone()), Error::NoDebugfs(_)));
        std::fs::create_dir(dir.path().join("other")).unwrap();
        assert!(matches!(error(absent), Error::NoModule(_)));
    }

    #[test]
    fn a_directory_like_the_kernels() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("control"), STATE).unwrap();
        let control = Control::new(dir.path().into());
        assert_eq!(control.state().unwrap().programs.len(), 2);
        let lock = control.lock().unwrap();
        assert!(matches!(control.lock(), Err(Error::Watched)));
        drop(lock);
        std::fs::write(dir.path().join("control"), "point\n").unwrap();
        let error = control.state().unwrap_err();
        assert!(matches!(error, Error::State { line: 1, .. }));
        assert_eq!(kernel_name("bzImage"), "vmlinux");
        assert_eq!(kernel_name("ext4"), "ext4");
    }
}
