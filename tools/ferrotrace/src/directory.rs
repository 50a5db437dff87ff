// SPDX-License-Identifier: GPL-2.0

//! Directories of several files that a command writes or reads.
//!
//! Another user may be able to change what is in such a directory, or to put it in place of the one
//! that was meant. Files are therefore reached through a descriptor of the directory and by one
//! name: no link is followed, nothing that exists is written to, and only regular files are read.

#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::fcntl::OFlag;
use nix::fcntl::openat;
use nix::fcntl::renameat;
use nix::sys::stat::Mode;
use nix::sys::stat::mkdirat;
use nix::unistd::UnlinkatFlags;
use nix::unistd::geteuid;
use nix::unistd::symlinkat;
use nix::unistd::syncfs;
use nix::unistd::unlinkat;
use thiserror::Error;

use crate::file::contents;
use crate::trusted_path::PathError;
use crate::trusted_path::Walk;

/// A directory that cannot be written to.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// It has files.
    #[error("{}: exists and is not empty{}", path.display(), if *can_force { " (--force writes into it)" } else { "" })]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// True if there is an option for that.
        can_force: bool,
    },
    /// It is a file, or a link.
    #[error("{}: exists and is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// It is a link, which another user may have made.
    #[error("{}: a symbolic link, which is not followed: name the directory that it leads to", .0.display())]
    Link(PathBuf),
    /// A directory before it is a link that another user may have put there.
    #[error(transparent)]
    Above(PathError),
    /// Any user could replace what is written.
    #[error("{}: exists, and all users can write to it", .0.display())]
    Shared(PathBuf),
    /// Another user could replace what is written.
    #[error("{}: exists and belongs to another user ({uid})", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The system refused.
    #[error("{}: cannot be created", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Permissions of a new directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its user only.
    Private,
    /// As the process has it for all new files.
    Usual,
}

impl Access {
    fn mode(self) -> Mode {
        match self {
            Self::Private => Mode::S_IRUSR | Mode::S_IWUSR,
            Self::Usual => Mode::from_bits_truncate(0o666),
        }
    }
}

/// A directory, by its descriptor.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    access: Access,
}

/// The options of each open(): a FIFO does not wait for the other side.
fn flags(more: OFlag) -> OFlag {
    more | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC
}

/// Returns the name if it is one of a file in a directory.
fn one(name: &OsStr) -> io::Result<&OsStr> {
    match Path::new(name).file_name() {
        Some(own) if own == name => Ok(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not the name of a file of the directory",
        )),
    }
}

impl Directory {
    /// Opens a directory to read what is in it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let at = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            fd: openat(AT_FDCWD, path, at, Mode::empty())?,
            path: path.into(),
            access: Access::Usual,
        })
    }

    /// Creates a directory, or takes one of this user that is empty; with `force` any. `can_force`
    /// is for the message.
    pub fn create(
        path: &Path,
        access: Access,
        force: bool,
        can_force: bool,
    ) -> Result<Self, DirectoryError> {
        let failed = |source| DirectoryError::Io {
            path: path.into(),
            source,
        };
        let mode = match access {
            Access::Private => 0o700,
            Access::Usual => 0o777,
        };
        let of_path = |error| match error {
            PathError::Io(source) => failed(source),
            link @ PathError::Link { .. } => DirectoryError::Above(link),
        };
        let mut walk = Walk::new(path, false).map_err(failed)?;
        let name = &*walk.last_name().map_err(of_path)?;
        let exists = match mkdirat(walk.dir(), name, Mode::from_bits_truncate(mode)) {
            Ok(()) => false,
            Err(Errno::EEXIST) => true,
            Err(errno) => return Err(failed(errno.into())),
        };
        let at = flags(OFlag::O_DIRECTORY);
        let fd = match openat(walk.dir(), name, at, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                let found = walk.look(name).map(|found| found.metadata());
                return Err(match found {
                    Ok(Ok(found)) if found.is_symlink() => DirectoryError::Link(path.into()),
                    _ => DirectoryError::NotADirectory(path.into()),
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(failed)?;
        let uid = metadata.uid();
        if uid != geteuid().as_raw() && !force {
            return Err(DirectoryError::Foreign {
                path: path.into(),
                uid,
            });
        }
        if exists && !force && metadata.mode() & 0o1002 == 0o002 {
            return Err(DirectoryError::Shared(path.into()));
        }
        let directory = Self {
            fd: file.into(),
            path: path.into(),
            access,
        };
        // One that was just created may be another by now.
        if !force && !directory.names().map_err(failed)?.is_empty() {
            return Err(DirectoryError::NotEmpty {
                path: path.into(),
                can_force,
            });
        }
        Ok(directory)
    }

    /// Opens a directory to write to, which is created with those above it if they are missing.
    pub fn create_all(path: &Path) -> Result<Self, PathError> {
        let dir = Walk::new(path, true)?.enter_all()?;
        let fd = openat(&dir, ".", flags(OFlag::O_DIRECTORY), Mode::empty())?;
        Ok(Self {
            fd,
            path: path.into(),
            access: Access::Usual,
        })
    }

    /// Opens a directory in this one, which is created if it does not exist.
    pub fn subdirectory(&self, name: &OsStr) -> io::Result<Self> {
        let name = one(name)?;
        match mkdirat(&self.fd, name, Mode::from_bits_truncate(0o777)) {
            Ok(()) | Err(Errno::EEXIST) => (),
            Err(errno) => return Err(errno.into()),
        }
        let fd = openat(&self.fd, name, flags(OFlag::O_DIRECTORY), Mode::empty())?;
        Ok(Self {
            fd,
            path: self.path.join(name),
            access: self.access,
        })
    }

    /// Returns its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of what is in it.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let fd = openat(&self.fd, ".", flags(OFlag::O_DIRECTORY), Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::from_fd(fd)?.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Waits until all of its file system is on disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.fd)?)
    }

    /// Opens a regular file in it to be read.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let other = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let file = match openat(&self.fd, one(name)?, flags(OFlag::empty()), Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::ELOOP) => return Err(other("a symbolic link, which is not followed")),
            Err(errno) => return Err(errno.into()),
        };
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(other("not a regular file")),
        }
    }

    /// Returns all of a file, unless it is longer than `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        contents(self.open_file(name.as_ref())?, most)
    }

    /// Creates a file in the place of what has the name.
    pub fn create_file(&self, name: &OsStr) -> io::Result<File> {
        self.remove(name)?;
        let new = flags(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL);
        let fd = openat(&self.fd, name, new, self.access.mode())?;
        Ok(File::from(fd))
    }

    /// Creates a file with these bytes.
    pub fn write(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        self.create_file(name)?.write_all(bytes)
    }

    /// Puts a symbolic link in the place of what has the name.
    pub fn link(&self, to: &Path, name: &OsStr) -> io::Result<()> {
        self.remove(name)?;
        Ok(symlinkat(to, &self.fd, name)?)
    }

    /// Removes what has the name, if anything has; not a directory.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.fd, one(name)?, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives a file another name, in the place of what has that.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (one(from.as_ref())?, one(to.as_ref())?);
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::fs::symlink;

    use nix::unistd::mkfifo;

    use super::*;

    fn create(path: &Path, force: bool) -> Result<Directory, DirectoryError> {
        Directory::create(path, Access::Private, force, true)
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, victim) = (parent.path().join("out"), parent.path().join("victim"));
        fs::write(&victim, "kept").unwrap();
        let out = create(&dir, false).unwrap();
        // Another user's work, while it is written to.
        symlink(&victim, dir.join("cpu0")).unwrap();
        fs::hard_link(&victim, dir.join("cpu1")).unwrap();
        mkfifo(&dir.join("cpu2"), Mode::S_IRWXU).unwrap();
        for name in ["cpu0", "cpu1", "cpu2"] {
            out.write(name.as_ref(), b"data").unwrap();
            assert_eq!(fs::read(dir.join(name)).unwrap(), b"data");
            let metadata = dir.join(name).symlink_metadata().unwrap();
            assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600);
        }
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        // The directory is replaced.
        fs::rename(&dir, parent.path().join("moved")).unwrap();
        symlink(parent.path(), &dir).unwrap();
        out.write("victim".as_ref(), b"data").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        for name in ["../victim", "", ".", "..", "a/b"] {
            assert!(out.write(name.as_ref(), b"").is_err(), "{name}");
        }
        for force in [false, true] {
            assert!(matches!(create(&dir, force), Err(DirectoryError::Link(_))));
        }
        assert!(matches!(
            create(&victim, true),
            Err(DirectoryError::NotADirectory(_))
        ));
        assert!(matches!(
            create(&parent.path().join("moved"), false),
            Err(DirectoryError::NotEmpty { .. })
        ));
        symlink(parent.path(), parent.path().join("moved/sub")).unwrap();
        let out = create(&parent.path().join("moved"), true).unwrap();
        assert!(out.subdirectory("sub".as_ref()).is_err());
        assert!(out.subdirectory("other".as_ref()).is_ok());
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "12345").unwrap();
        symlink(dir.path().join("file"), dir.path().join("link")).unwrap();
        mkfifo(&dir.path().join("fifo"), Mode::S_IRWXU).unwrap();
        let read = |name| Directory::open(dir.path()).unwrap().read(name, 5);
        assert_eq!(read("file").unwrap(), b"12345");
        let error = |name| read(name).unwrap_err().to_string();
        assert_eq!(error("link"), "a symbolic link, which is not followed");
        // It would hang.
        assert_eq!(error("fifo"), "not a regular file");
        assert_eq!(error("../x"), "not the name of a file of the directory");
        assert_eq!(read("none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn directories_of_others() {
        // Only root can give one away.
        let dir = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(dir.path(), Some(65534), None).is_ok() {
            let error = create(dir.path(), false).unwrap_err();
            assert!(matches!(error, DirectoryError::Foreign { uid: 65534, .. }));
            assert!(create(dir.path(), true).is_ok());
        }
    }
}
