// SPDX-License-Identifier: GPL-2.0

//! The debugfs directory of the hook registry.

#![deny(unsafe_code)]

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;

use super::error::Action;
use super::error::Error;
use super::error::Result;
use super::model::ExitId;
use super::model::Hook;
use super::parse::parse;
use super::select;
use super::select::Target;
use crate::file::IoError;

/// `gkhi` in debugfs.
#[derive(Debug)]
pub struct Registry {
    dir: PathBuf,
}

impl Registry {
    /// Names the directory. Nothing is opened yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Reads the hooks that exist now.
    pub fn read(&self) -> Result<Vec<Hook>> {
        let path = self.dir.join("hooks");
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.absent(),
            _ => refused("read", &path, error),
        })?;
        parse(&text).map_err(|source| Error::Parse { path, source })
    }

    /// Arms or disarms all targets in one step of the kernel; none if one does not exist.
    pub fn set(&self, action: Action, targets: &[Target]) -> Result<()> {
        let find = || select::exits(&self.read()?, targets);
        let exits = find()?;
        match self.write(action, &exits) {
            // The better error names the exit, if it can be found.
            Err(error @ (Error::Gone(_) | Error::HookDeleted(_))) => find().and(Err(error)),
            other => other,
        }
    }

    fn write(&self, action: Action, exits: &[ExitId]) -> Result<()> {
        let path = self.dir.join(action.word());
        let file = File::options()
            .write(true)
            .open(&path)
            .map_err(|error| refused("open", &path, error))?;
        step(file, &path, action, exits)
    }

    /// Why there is no file `hooks`.
    fn absent(&self) -> Error {
        let dir = self.dir.clone();
        let debugfs = match self.dir.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => return Error::NoRegistry(dir),
        };
        // Where debugfs is not mounted there is an empty directory, or none.
        let empty = fs::read_dir(debugfs).map_or(true, |mut entries| entries.next().is_none());
        if empty {
            let debugfs = debugfs.to_owned();
            Error::NoDebugfs { dir, debugfs }
        } else {
            Error::NoRegistry(dir)
        }
    }
}

/// Passes all names in one `write()`, which the kernel takes as one step.
fn step(mut control: impl Write, path: &Path, action: Action, exits: &[ExitId]) -> Result<()> {
    let text: String = exits.iter().map(|exit| format!("{exit}\n")).collect();
    let taken = control
        .write(text.as_bytes())
        .map_err(|error| match errno(&error) {
            Errno::ENOENT => Error::Gone(action),
            Errno::ENODEV => Error::HookDeleted(action),
            Errno::E2BIG => Error::TooMany {
                action,
                count: exits.len(),
            },
            _ => refused("write", path, error),
        })?;
    if taken == text.len() {
        Ok(())
    } else {
        Err(Error::Short {
            path: path.into(),
            taken,
            len: text.len(),
        })
    }
}

fn errno(error: &io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::UnknownErrno, Errno::from_raw)
}

fn refused(action: &'static str, path: &Path, source: io::Error) -> Error {
    let path = path.into();
    match source.kind() {
        io::ErrorKind::PermissionDenied => Error::Denied(path),
        _ => Error::Io(IoError {
            action,
            path,
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control file that answers as told.
    struct Control<'a> {
        written: &'a mut Vec<Vec<u8>>,
        answer: std::result::Result<usize, Errno>,
    }

    impl Write for Control<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.push(bytes.to_owned());
            match self.answer {
                Ok(most) => Ok(bytes.len().min(most)),
                Err(errno) => Err(errno.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn exits() -> Vec<ExitId> {
        ["one", "two"]
            .iter()
            .map(|exit| ExitId {
                hook: "hook".parse().unwrap(),
                exit: exit.parse().unwrap(),
            })
            .collect()
    }

    fn try_step(answer: std::result::Result<usize, Errno>) -> (Vec<Vec<u8>>, Result<()>) {
        let mut written = Vec::new();
        let control = Control {
            written: &mut written,
            answer,
        };
        let result = step(control, Path::new("/gkhi/arm"), Action::Arm, &exits());
        (written, result)
    }

    #[test]
    fn all_names_in_one_write() {
        let (written, result) = try_step(Ok(usize::MAX));
        assert_eq!(written, [b"hook/one\nhook/two\n"]);
        result.unwrap();
    }

    #[test]
    fn no_second_write() {
        let (written, result) = try_step(Ok(9));
        assert_eq!(written.len(), 1);
        assert_eq!(
            result.unwrap_err().to_string(),
            "/gkhi/arm: the kernel took 9 of 18 bytes"
        );
    }

    #[test]
    fn answers_of_the_kernel() {
        let answer = |errno| try_step(Err(errno)).1.unwrap_err();
        assert!(matches!(answer(Errno::ENOENT), Error::Gone(Action::Arm)));
        assert!(matches!(
            answer(Errno::ENODEV),
            Error::HookDeleted(Action::Arm)
        ));
        assert!(matches!(
            answer(Errno::E2BIG),
            Error::TooMany { count: 2, .. }
        ));
        for errno in [Errno::EPERM, Errno::EACCES] {
            assert!(matches!(answer(errno), Error::Denied(_)));
        }
        for errno in [Errno::EINVAL, Errno::ENOMEM, Errno::EIO] {
            assert!(matches!(
                answer(errno),
                Error::Io(IoError {
                    action: "write",
                    ..
                })
            ));
        }
    }
}
