// SPDX-License-Identifier: GPL-2.0

//! The files that commands write.

#![deny(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::fcntl::openat;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::stat::Mode;
use nix::unistd::geteuid;
use thiserror::Error;

use crate::trusted_path::PathError;
use crate::trusted_path::Target;
use crate::trusted_path::Walk;

/// Failed operation on a file.
#[derive(Debug, Error)]
#[error("{}: cannot {action}", path.display())]
pub struct IoError {
    /// Action that failed.
    pub action: &'static str,
    /// To which file.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

impl IoError {
    /// Returns the error of a failed operation: `denied` of the path if permission is lacking.
    pub fn or_denied<E: From<Self>>(
        denied: fn(PathBuf) -> E,
        action: &'static str,
        path: &Path,
        source: io::Error,
    ) -> E {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => denied(path),
            _ => Self {
                action,
                path,
                source,
            }
            .into(),
        }
    }

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

/// Returns false if standard output is a pipe without a reader.
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

/// Returns all of a file, unless it is longer than `most` bytes: the path of a user may lead to a
/// device.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    contents(File::open(path)?, most)
}

/// Returns all of a regular file, or of a block device, unless it is longer than `most` bytes. A
/// FIFO does not make it wait.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NONBLOCK.bits();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    contents(file, most)
}

/// Returns all of an open file, unless it is longer than `most` bytes.
pub(crate) fn contents(file: File, most: u64) -> io::Result<Vec<u8>> {
    let check = |len: u64| match len > most {
        true => {
            let what = format!("longer than {most} bytes");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
        }
        false => Ok(()),
    };
    let len = file.metadata()?.len();
    check(len)?;
    let mut bytes = Vec::new();
    // Without the room it is taken as it is needed.
    let _ = bytes.try_reserve(usize::try_from(len).unwrap_or(0));
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    check(u64::try_from(read).unwrap_or(u64::MAX))?;
    Ok(bytes)
}

/// A file that cannot be written.
#[derive(Debug, Error)]
pub enum CreateError {
    /// It holds something.
    #[error("{}: exists and is not empty (--force writes over it)", .0.display())]
    NotEmpty(PathBuf),
    /// It, or a directory before it, is a link that another user may have put there.
    #[error(transparent)]
    Link(PathError),
    /// It is another user's file, or has another name as well.
    #[error("{}: exists, and {of}; remove it first", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How it can be another user's work.
        of: &'static str,
    },
    /// The system refused.
    #[error("{}: cannot be created", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// How often a file may be replaced, and a link followed, while it is being created.
const TRIES: usize = 100;

/// Creates the file at `path`. A file that holds something is written over only with `force`;
/// devices and FIFOs hold nothing.
///
/// No other user can redirect it: [`Walk`] says which links are followed. A file of another user is
/// not written to unless `force` chooses it, and one with other names never is.
pub fn create(path: &Path, force: bool) -> Result<File, CreateError> {
    let failed = |source| CreateError::Io {
        path: path.into(),
        source,
    };
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(failed(Errno::EISDIR.into()));
    }
    let of_path = |error| match error {
        PathError::Io(source) => failed(source),
        link @ PathError::Link { .. } => CreateError::Link(link),
    };
    let mut walk = Walk::new(path, false).map_err(failed)?;
    for _ in 0..TRIES {
        let name = walk.last_name().map_err(of_path)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let refused = match openat(walk.dir(), &*name, flags, Mode::from_bits_truncate(0o666)) {
            Ok(fd) => return Ok(fd.into()),
            Err(errno) => errno,
        };
        let found = match walk.look(&name) {
            Ok(found) => found,
            Err(Errno::ENOENT) if refused == Errno::EEXIST => continue,
            // A directory where only what exists may be written to is no error before this.
            Err(Errno::ENOENT) => return Err(failed(refused.into())),
            Err(errno) => return Err(failed(errno.into())),
        };
        if !found.metadata().map_err(failed)?.is_symlink() {
            let same = format!("/proc/self/fd/{}", found.as_raw_fd());
            let open = || File::options().write(true).open(same);
            return overwrite(&found, open, path, force);
        }
        if let Target::OpenFile = walk.follow(&name, &found).map_err(of_path)? {
            let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
            let file = openat(walk.dir(), &*name, flags, Mode::empty()).map(File::from);
            let file = file.map_err(|errno| failed(errno.into()))?;
            let same = file.try_clone().map_err(failed)?;
            return overwrite(&file, || Ok(same), path, force);
        }
    }
    Err(failed(Errno::ELOOP.into()))
}

/// Opens and empties a file that exists, if it may be written over. A FIFO of another user makes
/// nothing wait.
fn overwrite(
    found: &File,
    open: impl FnOnce() -> io::Result<File>,
    path: &Path,
    force: bool,
) -> Result<File, CreateError> {
    let failed = |source| CreateError::Io {
        path: path.into(),
        source,
    };
    let foreign = |of| CreateError::Foreign {
        path: path.into(),
        of,
    };
    let metadata = found.metadata().map_err(failed)?;
    let kind = metadata.file_type();
    let is_device = !kind.is_file() && !kind.is_fifo();
    if is_device {
        return open().map_err(failed);
    }
    if kind.is_file() && metadata.len() > 0 && !force {
        return Err(CreateError::NotEmpty(path.into()));
    }
    if metadata.uid() != geteuid().as_raw() && !force {
        return Err(foreign("belongs to another user"));
    }
    if kind.is_file() && metadata.nlink() > 1 {
        return Err(foreign(
            "has other names as well, which may be another user's work",
        ));
    }
    let file = open().map_err(failed)?;
    if kind.is_file() {
        file.set_len(0).map_err(failed)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::lchown;
    use std::os::unix::fs::symlink;

    use super::*;

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
        symlink("target", &link).unwrap();
        drop(create(&link, false).unwrap());
        assert!(dir.path().join("target").exists());
        symlink("/proc/self/fd/1", dir.path().join("stdout")).unwrap();
        drop(create(&dir.path().join("stdout"), true).unwrap());
        symlink("loop", dir.path().join("loop")).unwrap();
        let error = create(&dir.path().join("loop"), true);
        assert!(matches!(error, Err(CreateError::Io { .. })));
    }

    #[test]
    fn files_of_others_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (file, name) = (dir.path().join("file"), dir.path().join("name"));
        fs::write(&file, "").unwrap();
        fs::hard_link(&file, &name).unwrap();
        for force in [false, true] {
            assert!(matches!(
                create(&name, force),
                Err(CreateError::Foreign { .. })
            ));
        }
        // Only root can give a file away.
        let other = |path: &Path| lchown(path, Some(65534), None).is_ok();
        fs::remove_file(&name).unwrap();
        if other(&file) {
            assert!(matches!(
                create(&file, false),
                Err(CreateError::Foreign { .. })
            ));
            assert!(create(&file, true).is_ok());
            let link = dir.path().join("link");
            symlink(dir.path().join("none"), &link).unwrap();
            assert!(other(&link));
            let error = create(&link, true);
            let link = PathError::Link {
                path: link,
                by: Some(65534),
            };
            assert_eq!(error.unwrap_err().to_string(), link.to_string());
            assert!(!dir.path().join("none").exists());
        }
    }
}
