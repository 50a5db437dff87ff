// SPDX-License-Identifier: GPL-2.0

//! The files that commands write.

#![deny(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;

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
    /// Standard output cannot be written.
    pub fn stdout(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            action: "write",
            path: "standard output".into(),
            source: io::Error::other(source),
        }
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
