// SPDX-License-Identifier: GPL-2.0

//! The memory of a channel of an earlier boot.

#![deny(unsafe_code)]

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

use crate::file::read_regular;
use crate::lockdown;

/// Where the kernel has it.
pub const DIR: &str = "/sys/kernel/debug/ferrotrace_flight";

/// The most bytes of a copy: of memory that is reserved at boot.
const MOST: u64 = 1 << 40;

/// The file in it that takes commands.
const CONTROL: &str = "control";

/// Why there is no memory to look at.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The kernel does not offer it.
    #[error(
        "{}: no such directory (is debugfs mounted, and ferrotrace_fast_relay loaded?){}",
        .0.display(),
        lockdown::note()
    )]
    NoKernel(PathBuf),
    /// The command line of the kernel does not have that name.
    #[error("{0}: no such memory (the kernel's command line needs reserve_mem=SIZE:4096:{0})")]
    NoMemory(String),
    /// The name cannot be one.
    #[error("{0}: not the name of memory, or it does not start with a page")]
    BadName(String),
    /// There is nothing in it.
    #[error("{0}: no channel of an earlier boot is in this memory")]
    Nothing(String),
    /// A channel that was closed in this boot is still being read.
    #[error("{0}: in use")]
    InUse(String),
    /// The system refused.
    #[error("{}: cannot be {action}", path.display())]
    Io {
        /// Failed action, in the past tense.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Tells the kernel's side to do something with the memory called `name`.
fn command(dir: &Path, command: &str, name: &str) -> Result<(), MemoryError> {
    let path = dir.join(CONTROL);
    let Err(source) = fs::write(&path, format!("{command} {name}\n")) else {
        return Ok(());
    };
    let errno = source.raw_os_error().map(nix::errno::Errno::from_raw);
    Err(match errno {
        Some(nix::errno::Errno::ENOENT) => MemoryError::NoKernel(dir.into()),
        Some(nix::errno::Errno::ENXIO) => MemoryError::NoMemory(name.into()),
        Some(nix::errno::Errno::EINVAL) => MemoryError::BadName(name.into()),
        Some(nix::errno::Errno::ENODATA) => MemoryError::Nothing(name.into()),
        Some(nix::errno::Errno::EAGAIN) => MemoryError::InUse(name.into()),
        _ => MemoryError::Io {
            action: "written",
            path,
            source,
        },
    })
}

/// The bytes of a file, such as a copy of the memory.
pub fn read(path: &Path) -> Result<Vec<u8>, MemoryError> {
    read_regular(path, MOST).map_err(|source| MemoryError::Io {
        action: "read",
        path: path.into(),
        source,
    })
}

/// Returns the last boot's data in the memory called `name`; `dir` is the kernel's directory,
/// [`DIR`].
pub fn find(dir: &Path, name: &str) -> Result<Vec<u8>, MemoryError> {
    command(dir, "find", name)?;
    read(&dir.join(name))
}

/// Gives that up: the memory is free for another channel, and nothing is found any more.
pub fn forget(dir: &Path, name: &str) -> Result<(), MemoryError> {
    command(dir, "drop", name)
}
