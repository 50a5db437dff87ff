// SPDX-License-Identifier: GPL-2.0

//! The files that commands write.

#![deny(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::fcntl::OFlag;
use nix::fcntl::openat;
use nix::fcntl::readlinkat;
use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;
use nix::sys::stat::Mode;
use nix::sys::statfs::PROC_SUPER_MAGIC;
use nix::sys::statfs::fstatfs;
use nix::unistd::geteuid;
use thiserror::Error;

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
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    is_of_length(bytes, most)
}

/// Returns all of a regular file, unless it is longer than `most` bytes. A FIFO does not make it
/// wait.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NONBLOCK.bits();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    if metadata.len() > most {
        return Err(too_long(most));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn too_long(most: u64) -> io::Error {
    let what = format!("longer than {most} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

/// Returns the bytes if they are not more than `most`.
pub(crate) fn is_of_length(bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    match u64::try_from(bytes.len()).is_ok_and(|len| len <= most) {
        true => Ok(bytes),
        false => Err(too_long(most)),
    }
}

/// A file that cannot be written.
#[derive(Debug, Error)]
pub enum CreateError {
    /// It holds something.
    #[error("{}: exists and is not empty (--force writes over it)", .0.display())]
    NotEmpty(PathBuf),
    /// It is a link of another user, who may have put it where this user's file was to be.
    #[error("{}: a symbolic link of another user ({uid}), which is not followed", path.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
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

/// The most links that lead to a file, as for the kernel.
const LINKS: usize = 40;

/// Creates the file at `path`. A file that holds something is written over only with `force`;
/// devices and FIFOs hold nothing.
///
/// In a directory where others can create files, one of them may have put something in its place:
/// only links of root and of this user are followed, and a file of another user, or one that has
/// other names, is not written to unless it is chosen by `force`.
pub fn create(path: &Path, force: bool) -> Result<File, CreateError> {
    let failed = |source| CreateError::Io {
        path: path.into(),
        source,
    };
    let mut at = path.to_path_buf();
    for _ in 0..LINKS {
        match File::create_new(&at) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            // In a directory where only what exists may be written to.
            Err(_) if at.symlink_metadata().is_ok() => (),
            Err(error) => return Err(failed(error)),
        }
        let open = |flags: OFlag| {
            let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            openat(AT_FDCWD, &at, flags, Mode::empty()).map(File::from)
        };
        match open(OFlag::O_WRONLY) {
            Ok(file) => return overwrite(file, path, force),
            Err(Errno::ELOOP) => (),
            Err(errno) => return Err(failed(errno.into())),
        }
        // By its descriptor: the owner and the place that it leads to are those of one link.
        let link = match open(OFlag::O_PATH) {
            Ok(link) => link,
            Err(Errno::ENOENT) => continue,
            Err(errno) => return Err(failed(errno.into())),
        };
        let metadata = link.metadata().map_err(failed)?;
        if !metadata.is_symlink() {
            continue;
        }
        if ![0, geteuid().as_raw()].contains(&metadata.uid()) {
            return Err(CreateError::Link {
                path: path.into(),
                uid: metadata.uid(),
            });
        }
        if fstatfs(&link).is_ok_and(|found| found.filesystem_type() == PROC_SUPER_MAGIC) {
            // Such as /proc/self/fd/1: it leads to an open file, which need not have a path.
            let file = File::options().write(true).open(&at).map_err(failed)?;
            return overwrite(file, path, force);
        }
        let to = readlinkat(&link, "").map_err(|errno| failed(errno.into()))?;
        at = at.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(failed(Errno::ELOOP.into()))
}

/// Empties a file that exists, if it may be written over.
fn overwrite(file: File, path: &Path, force: bool) -> Result<File, CreateError> {
    let failed = |source| CreateError::Io {
        path: path.into(),
        source,
    };
    let foreign = |of| CreateError::Foreign {
        path: path.into(),
        of,
    };
    let metadata = file.metadata().map_err(failed)?;
    let kind = metadata.file_type();
    let is_device = !kind.is_file() && !kind.is_fifo();
    if is_device {
        return Ok(file);
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
            assert!(matches!(error, Err(CreateError::Link { uid: 65534, .. })));
            assert!(!dir.path().join("none").exists());
        }
    }
}
