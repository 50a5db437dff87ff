// SPDX-License-Identifier: GPL-2.0

//! What can go wrong with hooks.

#![deny(unsafe_code)]

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::model::ExitId;
use super::model::Name;
use super::parse::ParseError;
use crate::file::IoError;
use crate::lockdown;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// How many names a message shows at most.
const SHOWN: usize = 20;

/// The names that exist, for a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Others(pub Vec<String>);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN).unwrap_or(&self.0);
        if shown.is_empty() {
            return f.write_str("none at all");
        }
        f.write_str(&shown.join(", "))?;
        match self.0.len().saturating_sub(shown.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Action on exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Call them when their hooks fire.
    Arm,
    /// Stop calling them.
    Disarm,
}

impl Action {
    /// The word for it, which is the name of the control file too.
    pub const fn word(self) -> &'static str {
        match self {
            Action::Arm => "arm",
            Action::Disarm => "disarm",
        }
    }
}

/// An error of the hooks' commands.
#[derive(Debug, Error)]
pub enum Error {
    /// debugfs is not there.
    #[error("{}: no such directory: debugfs is not mounted (mount -t debugfs debugfs {})", dir.display(), debugfs.display())]
    NoDebugfs {
        /// The directory.
        dir: PathBuf,
        /// The one above it.
        debugfs: PathBuf,
    },

    /// debugfs is there, but has no hooks.
    #[error("{}: no such directory: the running kernel has no hook registry, or is one without Ferrotrace", .0.display())]
    NoRegistry(PathBuf),

    /// The user may not do that.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "debugfs belongs to root")
    )]
    Denied(PathBuf),

    /// The kernel writes something that is not understood here.
    #[error("{}: not understood", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        source: ParseError,
    },

    /// No hook has that name.
    #[error("there is no hook {hook}; hooks: {others}")]
    NoHook {
        /// The name.
        hook: Name,
        /// Those that there are.
        others: Others,
    },

    /// No hook has that name, but exits do.
    #[error("there is no hook {name}; did you mean the exit {others}?")]
    ExitMeant {
        /// The name.
        name: Name,
        /// The exits.
        others: Others,
    },

    /// No exit of the hook has that name.
    #[error("there is no exit {exit}; exits on {}: {others}", exit.hook)]
    NoExit {
        /// The name.
        exit: ExitId,
        /// Those that there are.
        others: Others,
    },

    /// All exits of a hook that has none.
    #[error("there is no exit on {0}")]
    NoExits(Name),

    /// An exit has gone between reading the hooks and the step.
    #[error("cannot {}: an exit has been deregistered meanwhile; nothing was changed", .0.word())]
    Gone(Action),

    /// The hook of an exit has been deleted; it is only listed because of its exits.
    #[error("cannot {}: the hook of an exit has been deleted; nothing was changed", .0.word())]
    HookDeleted(Action),

    /// The kernel does not accept that many at once.
    #[error("cannot {} {count} exits in one step, they are too many; nothing was changed", action.word())]
    TooMany {
        /// The step.
        action: Action,
        /// How many.
        count: usize,
    },

    /// The kernel took a part of what was written.
    #[error("{}: the kernel took {taken} of {len} bytes", path.display())]
    Short {
        /// The control file.
        path: PathBuf,
        /// Number of bytes that the kernel accepted.
        taken: usize,
        /// Number of written bytes.
        len: usize,
    },

    /// Any other refusal of the system.
    #[error(transparent)]
    Io(#[from] IoError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_not_too_many() {
        assert_eq!(Others(Vec::new()).to_string(), "none at all");
        let names = |count: usize| Others((0..count).map(|n| n.to_string()).collect()).to_string();
        assert_eq!(names(2), "0, 1");
        assert!(names(20).ends_with(", 18, 19"));
        assert!(names(22).ends_with(", 18, 19 and 2 more"));
    }
}
