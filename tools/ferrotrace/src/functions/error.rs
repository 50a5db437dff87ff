// SPDX-License-Identifier: GPL-2.0

//! What can go wrong when functions are traced.

#![deny(unsafe_code)]

use std::path::PathBuf;

use thiserror::Error;

use crate::file::IoError;
use crate::lockdown;
use crate::probes::error::or_these;
/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of `ferrotrace trace`.
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
        "{}: no such directory: the module ferrotrace_ftrace_functions is not loaded (modprobe \
         ferrotrace_ftrace_functions; it comes with CONFIG_FTRACE_RUST_FUNCTIONS){}",
        .0.display(),
        lockdown::note()
    )]
    NoModule(PathBuf),

    /// The list of functions is not there.
    #[error("{}: nothing there: is tracefs mounted? (mount -t tracefs tracefs /sys/kernel/tracing)", .0.display())]
    NoTracefs(PathBuf),

    /// The user may not do that.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may trace the kernel")
    )]
    Denied(PathBuf),

    /// Another process is tracing.
    #[error("another \"ferrotrace trace functions\" is running")]
    Busy,

    /// A list or a state is not as it should be.
    #[error("{}: line {line} is not understood: {text:?}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },

    /// The kernel has no such function.
    #[error("no function is called {pattern}{}", or_these(near))]
    NoFunction {
        /// The pattern.
        pattern: String,
        /// Names like this one.
        near: Vec<String>,
    },

    /// The kernel has such functions, but ftrace cannot trace them.
    #[error(
        "{pattern}: ftrace cannot trace {} (notrace, or compiled without it; available_filter_functions of tracefs has all that it can)",
        these(names)
    )]
    NotTraced {
        /// The pattern.
        pattern: String,
        /// The functions.
        names: Vec<String>,
    },

    /// There is no such module.
    #[error("no module {0} is loaded")]
    NoSuchModule(String),

    /// A module has no such function that ftrace can trace.
    #[error("the module {module} has no function {pattern} that ftrace can trace")]
    NotInModule {
        /// The pattern.
        pattern: String,
        /// The module.
        module: String,
    },

    /// A function has gone since the list was read.
    #[error("one of the functions has gone meanwhile, with its module")]
    Gone,

    /// Any other refusal of the system.
    #[error(transparent)]
    Io(#[from] IoError),

    /// The command that is run meanwhile.
    #[error(transparent)]
    Command(#[from] crate::signals::CommandError),

    /// The channel of the calls.
    #[error(transparent)]
    Channel(#[from] crate::relay::error::Error),
}

fn these(names: &[String]) -> String {
    const MOST: usize = 5;
    let first = names.get(..MOST).unwrap_or(names).join(", ");
    match names.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_too_many() {
        let names = |count: usize| these(&(0..count).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(names(2), "0, 1");
        assert_eq!(names(7), "0, 1, 2, 3, 4 and 2 more");
    }
}
