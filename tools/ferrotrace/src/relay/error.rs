// SPDX-License-Identifier: GPL-2.0

//! What can go wrong with a channel or a recording.

#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use nix::errno::Errno;
use thiserror::Error;

use super::channel::CpuId;
use crate::directory::DirectoryError;
use crate::file::CreateError;
use crate::file::IoError;
use crate::lockdown;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A list of names for a message, or nothing if there are none.
#[derive(Debug)]
pub struct Others(pub Vec<String>);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; relay files there: {}", self.0.join(", "))
    }
}

/// An error of the relay commands.
#[derive(Debug, Error)]
pub enum Error {
    /// The channel was not given as DIR/NAME.
    #[error("{}: not of the form DIR/NAME", .0.display())]
    NotAChannel(PathBuf),

    /// A directory was given instead of DIR/NAME.
    #[error("{} is a directory; name the relay files too, DIR/NAME without the CPU's number{others}", dir.display())]
    IsDirectory {
        /// Path that the user gave.
        dir: PathBuf,
        /// Base names found there.
        others: Others,
    },

    /// DIR does not exist.
    #[error(
        "{}: no such directory (is debugfs mounted, and the client loaded?){}",
        .0.display(),
        lockdown::note()
    )]
    NoDirectory(PathBuf),

    /// DIR has no controls.
    #[error("{}: not the directory of a relay application: it has no file {control}", dir.display())]
    NotAnApp {
        /// The directory.
        dir: PathBuf,
        /// The file that is missing.
        control: String,
    },

    /// The relay application already has a channel.
    #[error("{}: there is a channel already; is somebody else draining it? (--replace takes it away)", .0.display())]
    ChannelThere(PathBuf),

    /// DIR is not a directory.
    #[error("{}: not a directory", .0.display())]
    NotADirectory(PathBuf),

    /// DIR has no NAME0, NAME1, ...
    #[error("{}: no relay file of the name {name}0, {name}1, ...{others}", dir.display())]
    NoRelayFile {
        /// The directory.
        dir: PathBuf,
        /// The base name asked for.
        name: String,
        /// Base names found there.
        others: Others,
    },

    /// The user may not do that.
    #[error(
        "{}: permission denied to {action}: {}",
        path.display(),
        lockdown::cause(path, "relay files belong to root")
    )]
    Denied {
        /// Action that failed.
        action: &'static str,
        /// To which file.
        path: PathBuf,
    },

    /// The file does not support mmap.
    #[error("{}: the kernel refuses to map this file, as mainline's debugfs does for relay files; use --read", .0.display())]
    MmapRefused(PathBuf),

    /// The buffer does not have the size that was assumed.
    #[error("{}: cannot be mapped as {n_subbufs} sub-buffers of {subbuf_size} bytes", path.display())]
    WrongSize {
        /// The relay file.
        path: PathBuf,
        /// The size assumed.
        subbuf_size: usize,
        /// The number assumed.
        n_subbufs: usize,
    },

    /// `subbuf_size` or `n_subbufs` cannot be known.
    #[error("{}: there is no {file}, and it was not given on the command line (--subbuf-size, --n-subbufs)", dir.display())]
    UnknownSize {
        /// The directory.
        dir: PathBuf,
        /// The missing control file.
        file: &'static str,
    },

    /// The sizes are zero or too large.
    #[error("{n_subbufs} sub-buffers of {subbuf_size} bytes: no such buffer can exist")]
    BadSize {
        /// The size given.
        subbuf_size: usize,
        /// The number given.
        n_subbufs: usize,
    },

    /// The header fills the sub-buffer.
    #[error("a header of {header} bytes does not fit into sub-buffers of {subbuf_size}")]
    HeaderTooLarge {
        /// The header's length.
        header: usize,
        /// The sub-buffer's.
        subbuf_size: usize,
    },

    /// Another process takes the data of this relay file.
    #[error("{}: another process is reading the channel; each would miss what the other takes", .0.display())]
    Busy(PathBuf),

    /// A control file that this way of recording needs is missing.
    #[error("{}: missing, but needed to {purpose}; {instead}", path.display())]
    NoControl {
        /// The control file.
        path: PathBuf,
        /// Purpose of the file.
        purpose: &'static str,
        /// Advice for the user.
        instead: &'static str,
    },

    /// A control file holds something unexpected.
    #[error("{}: {found:?} is not {expected}", path.display())]
    BadControl {
        /// The control file.
        path: PathBuf,
        /// Contents of the file.
        found: String,
        /// Expected contents.
        expected: &'static str,
    },

    /// A fast channel describes itself in an impossible way.
    #[error("{}: {what}", path.display())]
    BadControlPage {
        /// The relay file.
        path: PathBuf,
        /// Error in the page.
        what: String,
    },

    /// The kernel refused the count of consumed sub-buffers.
    #[error("{}: the kernel refuses a delta of {delta} (does another reader drain this channel?)", path.display())]
    ConsumedRefused {
        /// The control file.
        path: PathBuf,
        /// Written number.
        delta: usize,
    },

    /// A finished sub-buffer claims to have more padding than bytes.
    #[error("CPU {cpu}: sub-buffer {subbuf} claims {padding} bytes of padding, of {subbuf_size}{}", if *header { " (does each sub-buffer start with its padding, as --header says?)" } else { "" })]
    BadPadding {
        /// The buffer's CPU.
        cpu: CpuId,
        /// The number of the sub-buffer.
        subbuf: usize,
        /// The padding that it claims.
        padding: usize,
        /// The bytes of a sub-buffer.
        subbuf_size: usize,
        /// True if the padding is in a header.
        header: bool,
    },

    /// `--read --header` on a channel in overwrite mode.
    #[error(
        "in overwrite mode read(2) does not tell where sub-buffers begin, so that --read cannot remove headers; leave --read out"
    )]
    HeaderUnreadable,

    /// `--header` on a fast channel.
    #[error("this is a fast channel, its sub-buffers have no headers; leave --header out")]
    HeaderOfFast,

    /// The directory OUT cannot be created.
    #[error(transparent)]
    Directory(#[from] DirectoryError),

    /// A file cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),

    /// The disk of OUT is full.
    #[error("{}: no space left on the device; what was written before is kept", .0.display())]
    DiskFull(PathBuf),

    /// The buffer has gone: its channel was closed.
    #[error("{}: the channel was closed", .0.display())]
    Gone(PathBuf),

    /// Any other refusal of the system.
    #[error(transparent)]
    Io(#[from] IoError),

    /// A failed system call that does not concern a file.
    #[error("cannot {action}")]
    System {
        /// Action that failed.
        action: &'static str,
        /// The system's answer.
        source: Errno,
    },
}

impl Error {
    /// The error for a file of the channel.
    pub fn channel(action: &'static str, path: &Path, source: io::Error) -> Self {
        match errno(&source) {
            // debugfs returns EIO for operations on a file that has been removed.
            Errno::EIO | Errno::ENOENT | Errno::ENODEV | Errno::ENXIO => Error::Gone(path.into()),
            _ => Self::file(action, path, source),
        }
    }

    /// The error for a file of the recording.
    pub fn output(action: &'static str, path: &Path, source: io::Error) -> Self {
        match errno(&source) {
            Errno::ENOSPC | Errno::EDQUOT => Error::DiskFull(path.into()),
            _ => Self::file(action, path, source),
        }
    }

    fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.into();
        match errno(&source) {
            Errno::EACCES | Errno::EPERM => Error::Denied { action, path },
            _ => Error::Io(IoError {
                action,
                path,
                source,
            }),
        }
    }

    /// Returns true if the channel no longer exists.
    pub fn is_gone(&self) -> bool {
        matches!(self, Error::Gone(_) | Error::NoDirectory(_))
    }
}

fn errno(error: &io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::UnknownErrno, Errno::from_raw)
}
