// SPDX-License-Identifier: GPL-2.0

//! What can go wrong with loaded programs.

#![deny(unsafe_code)]

use std::path::PathBuf;

use nix::errno::Errno;
use thiserror::Error;

use super::lang::source::SourceError;
use super::set::SetError;
use crate::elf::ElfError;
use crate::file::IoError;
use crate::lockdown;
use crate::near::Names;
use crate::near::did_you_mean;
use crate::near::near;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the dprobes commands.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing is mounted where debugfs should be.
    #[error(
        "{}: nothing there: is debugfs mounted? (mount -t debugfs debugfs /sys/kernel/debug){}",
        .0.display(),
        lockdown::note()
    )]
    NoDebugfs(PathBuf),

    /// debugfs is there, but not the directory of the module.
    #[error(
        "{}: no such directory: the module rust_dprobes is not loaded (modprobe rust_dprobes; \
         it comes with CONFIG_DPROBES_RUST){}",
        .0.display(),
        lockdown::note()
    )]
    NoModule(PathBuf),

    /// The user may not do that.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root (CAP_SYS_ADMIN) may load and see probe programs")
    )]
    Denied(PathBuf),

    /// The state is not as it should be.
    #[error("{}: line {line} is not understood: {text}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The line.
        text: String,
    },

    /// The kernel refuses.
    #[error("the kernel refuses {what}: {said} ({errno:?}){}", hint(*errno))]
    Refused {
        /// Refused action.
        what: String,
        /// Its reason.
        said: String,
        /// Its answer.
        errno: Errno,
    },

    /// No program has that name.
    #[error(
        "no program {name} is loaded{}; programs: {others}",
        did_you_mean_of(name, others)
    )]
    NoProgram {
        /// The name.
        name: String,
        /// Those that there are.
        others: Names,
    },

    /// Files have errors, which have been shown.
    #[error("{errors} in {files}")]
    Language {
        /// How many errors there are.
        errors: String,
        /// The files.
        files: String,
    },

    /// A program writes and was not allowed to.
    #[error(
        "{place} of {program} changes registers, memory or ports, calls a module or asks for a dump: --unsafe-writes allows that"
    )]
    Writes {
        /// The program.
        program: String,
        /// The point.
        place: String,
    },

    /// Not a file of `build`.
    #[error("{}: cannot be used as a file of built programs (ferrotrace dprobes build): {reason}", path.display())]
    NotBuilt {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },

    /// Programs that cannot be loaded together.
    #[error(transparent)]
    Set(#[from] SetError),

    /// A program file that cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),

    /// A file of symbols that cannot be read.
    #[error(transparent)]
    Elf(#[from] ElfError),

    /// Another process is reading the records, and would get a part of them.
    #[error("another reader of probe records is running")]
    Watched,

    /// Any other refusal of the system.
    #[error(transparent)]
    Io(#[from] IoError),

    /// The command that is run meanwhile.
    #[error(transparent)]
    Command(#[from] crate::signals::CommandError),

    /// The channel of the records.
    #[error(transparent)]
    Channel(#[from] crate::relay::error::Error),
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::EEXIST => "; --replace takes its place, --merge adds to it",
        Errno::EPERM => "; it needs CAP_SYS_ADMIN, and a kernel that is not locked down",
        _ => "",
    }
}

fn did_you_mean_of(name: &str, others: &Names) -> String {
    let names = near(name, others.0.iter().map(String::as_str));
    did_you_mean(&names).map_or_else(String::new, |question| format!(" ({question})"))
}
