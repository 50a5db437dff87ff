// SPDX-License-Identifier: GPL-2.0

//! Resolves paths of files that a command writes, while another user may change the path.
//!
//! The kernel follows any link in a path. A user who can write one of its directories can so have
//! root write elsewhere. [`Walk`] opens one name at a time, from the descriptor of the directory
//! before: what is checked is what is used. It follows a link only if no other user can have put it
//! there. The link has to belong to root or to this user, and its directory too, and others must
//! not be able to write to that directory, except a sticky one. Rules on the directories themselves
//! are not needed: a user who moves a directory of theirs has only moved what is written there.

#![deny(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::fcntl::OFlag;
use nix::fcntl::OpenHow;
use nix::fcntl::ResolveFlag;
use nix::fcntl::openat;
use nix::fcntl::openat2;
use nix::fcntl::readlinkat;
use nix::sys::stat::Mode;
use nix::sys::stat::mkdirat;
use nix::sys::statfs::PROC_SUPER_MAGIC;
use nix::sys::statfs::fstatfs;
use nix::unistd::getegid;
use nix::unistd::geteuid;
use thiserror::Error;

/// The most links that a path may have, as for the kernel.
const LINKS: usize = 40;

/// The bit of a mode that lets only owners remove files of a directory.
const STICKY: u32 = 0o1000;

/// A path that cannot be resolved.
#[derive(Debug, Error)]
pub enum PathError {
    /// Another user may have made the link.
    #[error(
        "{}: a symbolic link that {} can change, which is not followed; name what it leads to",
        path.display(),
        by.map_or("others".to_owned(), |uid| format!("another user ({uid})"))
    )]
    Link {
        /// The link.
        path: PathBuf,
        /// The owner of the link or of its directory, if only one other user can change it.
        by: Option<u32>,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for PathError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Target of a link.
pub(crate) enum Target {
    /// The walk goes on at its path.
    Path,
    /// An open file, such as that of `/proc/self/fd/1`, which need not have a path.
    OpenFile,
}

/// A path that is being resolved.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The directory that has been reached.
    dir: File,
    /// Its path, for messages.
    reached: PathBuf,
    /// Names that follow.
    names: VecDeque<OsString>,
    links: usize,
    /// True if missing directories are created.
    creates: bool,
}

/// Opens a directory of which only the contents are used.
fn open_directory(from: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(File::from(openat(AT_FDCWD, from, flags, Mode::empty())?))
}

impl Walk {
    /// Begins at the root directory or at the working directory. `creates`: also creates
    /// directories that are missing, except the last.
    pub(crate) fn new(path: &Path, creates: bool) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::ENOENT.into());
        }
        let mut walk = Self {
            dir: open_directory(Path::new("."))?,
            reached: PathBuf::new(),
            names: VecDeque::new(),
            links: 0,
            creates,
        };
        walk.prepend(path)?;
        Ok(walk)
    }

    /// Puts the names of a path before those that follow.
    fn prepend(&mut self, path: &Path) -> io::Result<()> {
        if path.is_absolute() {
            self.dir = open_directory(Path::new("/"))?;
            self.reached = "/".into();
        }
        for part in path.components().rev() {
            match part {
                Component::Normal(_) | Component::ParentDir | Component::CurDir => {
                    self.names.push_front(part.as_os_str().to_owned());
                }
                Component::RootDir | Component::Prefix(_) => (),
            }
        }
        Ok(())
    }

    /// Returns the directory that has been reached.
    pub(crate) fn dir(&self) -> &File {
        &self.dir
    }

    /// Enters directories until one name is left, and returns it.
    pub(crate) fn last_name(&mut self) -> Result<OsString, PathError> {
        loop {
            let Some(name) = self.names.pop_front() else {
                return Ok(".".into());
            };
            if self.names.is_empty() {
                return Ok(name);
            }
            self.enter(&name)?;
        }
    }

    /// Enters all directories, and creates them if the walk does that.
    pub(crate) fn enter_all(mut self) -> Result<File, PathError> {
        while let Some(name) = self.names.pop_front() {
            self.enter(&name)?;
        }
        Ok(self.dir)
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), PathError> {
        let open = |walk: &Self| {
            let how = OpenHow::new()
                .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
                .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
            // The last name alone would not have the kernel mount what is mounted on demand.
            openat2(&walk.dir, &Path::new(name).join("."), how)
        };
        let mut found = open(self);
        if matches!(found, Err(Errno::ENOENT)) && self.creates {
            found = match mkdirat(&self.dir, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => open(self),
                Err(errno) => return Err(errno.into()),
            };
        }
        self.dir = match found {
            Ok(dir) => dir.into(),
            Err(Errno::ELOOP) => {
                let link = self.look(name)?;
                match self.follow(name, &link)? {
                    Target::Path => return Ok(()),
                    Target::OpenFile => {
                        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                        openat(&self.dir, name, flags, Mode::empty())?.into()
                    }
                }
            }
            Err(errno) => return Err(errno.into()),
        };
        self.reached.push(name);
        Ok(())
    }

    /// Opens what has a name in the directory, without any effect on it.
    pub(crate) fn look(&self, name: &OsStr) -> nix::Result<File> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.dir, name, flags, Mode::empty()).map(File::from)
    }

    /// Follows a link of the directory, which [`Self::look`] returned, if no other user can have
    /// put it there.
    pub(crate) fn follow(&mut self, name: &OsStr, link: &File) -> Result<Target, PathError> {
        self.links += 1;
        if self.links > LINKS {
            return Err(Errno::ELOOP.into());
        }
        let is_other = |uid: &u32| *uid != 0 && *uid != geteuid().as_raw();
        let found = link.metadata()?;
        if !found.is_symlink() {
            // Its owner has replaced it since.
            return Err(Errno::ELOOP.into());
        }
        let dir = self.dir.metadata()?;
        let by = [found.uid(), dir.uid()].into_iter().find(is_other);
        // A user's own group is taken for the user.
        let of_others = match [0, getegid().as_raw()].contains(&dir.gid()) {
            true => 0o002,
            false => 0o022,
        };
        let is_shared = dir.mode() & of_others != 0 && dir.mode() & STICKY == 0;
        if by.is_some() || is_shared {
            return Err(PathError::Link {
                path: self.reached.join(name),
                by,
            });
        }
        if fstatfs(link).is_ok_and(|found| found.filesystem_type() == PROC_SUPER_MAGIC) {
            return Ok(Target::OpenFile);
        }
        // By its descriptor: the owner and the target are those of one link.
        let target = readlinkat(link, "")?;
        self.prepend(Path::new(&target))?;
        Ok(Target::Path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::fs::lchown;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the directory that a path leads to.
    fn reached(path: &Path, creates: bool) -> Result<u64, PathError> {
        let dir = Walk::new(path, creates)?.enter_all()?;
        Ok(dir.metadata()?.ino())
    }

    #[test]
    fn paths_as_the_kernel_has_them() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a/b", root.join("link")).unwrap();
        symlink(root.join("a"), root.join("absolute")).unwrap();
        symlink("../link", root.join("a/to_link")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        for path in [
            "",
            "a",
            "a/b",
            "a/./b/..",
            "link",
            "link/..",
            "absolute/b",
            "a/to_link",
            "a//b/",
        ] {
            let path = root.join(path);
            let expected = fs::metadata(&path).unwrap().ino();
            assert_eq!(reached(&path, false).unwrap(), expected, "{path:?}");
        }
        let errno = |path: &str| match reached(&root.join(path), false) {
            Err(PathError::Io(error)) => error.raw_os_error().map(Errno::from_raw),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(errno("none/x"), Some(Errno::ENOENT));
        assert_eq!(errno("file/x"), Some(Errno::ENOTDIR));
        assert_eq!(errno("loop/x"), Some(Errno::ELOOP));
        assert!(Walk::new(Path::new(""), false).is_err());
        // The working directory, and a link to an open directory.
        let here = fs::metadata(".").unwrap().ino();
        for path in [".", "/proc/self/cwd", "/proc/self/cwd/."] {
            assert_eq!(reached(Path::new(path), false).unwrap(), here, "{path}");
        }
        let made = reached(&root.join("link/c/d"), true).unwrap();
        assert_eq!(made, fs::metadata(root.join("a/b/c/d")).unwrap().ino());
    }

    #[test]
    fn links_of_others() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir(root.join("victim")).unwrap();
        let dir = root.join("dir");
        fs::create_dir(&dir).unwrap();
        let link = dir.join("link");
        symlink("../victim", &link).unwrap();
        let refused = |expected: Option<u32>| match reached(&link.join("x"), true) {
            Err(PathError::Link { path, by }) => assert_eq!((path, by), (link.clone(), expected)),
            other => panic!("{other:?}"),
        };
        // Any user could have moved the link there.
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        refused(None);
        fs::set_permissions(&dir, Permissions::from_mode(0o1777)).unwrap();
        assert!(reached(&link, false).is_ok());
        // Only root can give files away.
        if lchown(&link, Some(65534), None).is_ok() {
            refused(Some(65534));
            lchown(&link, Some(0), None).unwrap();
            lchown(&dir, Some(65534), None).unwrap();
            refused(Some(65534));
            lchown(&dir, Some(0), Some(65534)).unwrap();
            fs::set_permissions(&dir, Permissions::from_mode(0o775)).unwrap();
            refused(None);
        }
        assert_eq!(fs::read_dir(root.join("victim")).unwrap().count(), 0);
    }
}
