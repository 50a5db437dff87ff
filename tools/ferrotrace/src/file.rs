// SPDX-License-Identifier: GPL-2.0

//! The files that commands write.

#![deny(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::path::PathBuf;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use thiserror::Error;

/// What the system refuses to do to a file.
#[derive(Debug, Error)]
#[error("{}: cannot {action}", path.display())]
pub struct IoError {
    /// What was being done.
    pub action: &'static str,
    /// To which file.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

impl IoError {
    /// Standard output cannot be written: the file that it is, if it is one.
    pub fn stdout(source: io::Error) -> Self {
        let file = std::fs::read_link("/proc/self/fd/1").ok();
        Self {
            action: "write",
            // Pipes and sockets have a name without a directory.
            path: file
                .filter(|path| path.is_absolute())
                .unwrap_or_else(|| "standard output".into()),
            source,
        }
    }
}

/// Whether somebody still reads standard output: that of a pipe can have gone.
pub fn is_stdout_read() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    // What cannot be examined will be noticed when it is written.
    poll(&mut fds, PollTimeout::ZERO).is_err()
        || !fds
            .iter()
            .any(|fd| fd.revents().is_some_and(|events| events.intersects(gone)))
}

/// All of a file, unless it is longer than `most` bytes: what a user names may be a device.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()).is_ok_and(|len| len <= most) {
        true => Ok(bytes),
        false => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {most} bytes"),
        )),
    }
}

/// A file that cannot be written.
#[derive(Debug, Error)]
pub enum CreateError {
    /// It holds something.
    #[error("{}: exists and is not empty (--force writes over it)", .0.display())]
    NotEmpty(PathBuf),
    /// The system refused.
    #[error("{}: cannot be created", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Creates the file at `path`. One that holds something is written over only with `force`; devices and FIFOs hold nothing.
pub fn create(path: &Path, force: bool) -> Result<File, CreateError> {
    let failed = |source| CreateError::Io {
        path: path.into(),
        source,
    };
    let new = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        // In a directory where only what exists may be written to.
        Err(_) if path.exists() => None,
        other => Some(other.map_err(failed)?),
    };
    if let Some(file) = new {
        return Ok(file);
    }
    let holds_something = path
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    if holds_something && !force {
        return Err(CreateError::NotEmpty(path.into()));
    }
    File::create(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_has_no_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_at_most(&path, 5).unwrap(), b"12345");
        for (path, most) in [(&*path, 4), (Path::new("/dev/zero"), 1 << 20)] {
            let error = read_at_most(path, most).unwrap_err();
            assert_eq!(error.to_string(), format!("longer than {most} bytes"));
        }
    }

    #[test]
    fn what_holds_something_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        drop(create(&path, false).unwrap());
        // It is still empty.
        drop(create(&path, false).unwrap());
        fs::write(&path, "something").unwrap();
        assert!(matches!(
            create(&path, false),
            Err(CreateError::NotEmpty(_))
        ));
        assert_eq!(fs::read(&path).unwrap(), b"something");
        drop(create(&path, true).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"");
        drop(create(Path::new("/dev/null"), false).unwrap());
        for bad in [dir.path(), &dir.path().join("no/such")] {
            assert!(matches!(create(bad, true), Err(CreateError::Io { .. })));
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("target"), &link).unwrap();
        drop(create(&link, false).unwrap());
        assert!(dir.path().join("target").exists());
    }
}
