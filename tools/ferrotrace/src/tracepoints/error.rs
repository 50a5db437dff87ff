// SPDX-License-Identifier: GPL-2.0

//! Errors of tracepoints.

#![deny(unsafe_code)]

use std::path::PathBuf;

use thiserror::Error;

use super::format::DescriptionError;
use crate::file::IoError;
use crate::lockdown;
use crate::near::Names;

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of tracepoints.
#[derive(Debug, Error)]
pub enum Error {
    /// The user lacks the permission.
    #[error(
        "{}: permission denied: {}",
        .0.display(),
        lockdown::cause(.0, "only root may use tracepoints")
    )]
    Denied(PathBuf),
    /// There is no such event.
    #[error(
        "no tracepoint matches {pattern}; similar: {} (available_events in tracefs has all)",
        Names(near.clone())
    )]
    NoEvent {
        /// Pattern that the user gave.
        pattern: String,
        /// Events with similar names.
        near: Vec<String>,
    },
    /// There is no such system call.
    #[error("no system call matches {pattern}; similar: {}", Names(near.clone()))]
    NoSyscall {
        /// Pattern that the user gave.
        pattern: String,
        /// System calls with similar names.
        near: Vec<String>,
    },
    /// The kernel has no events of system calls.
    #[error("this kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS)")]
    NoSyscalls,
    /// The text does not have the form of a tracepoint.
    #[error("{0}: not of the form SYSTEM:EVENT [FIELD...] [if CONDITION]")]
    Form(String),
    /// The condition.
    #[error(transparent)]
    Condition(#[from] crate::probes::condition::ConditionError),
    /// The event has no such field.
    #[error("{event} has no field {name}; it has {others}")]
    NoField {
        /// The event.
        event: String,
        /// The name.
        name: String,
        /// Names of its fields.
        others: Names,
    },
    /// A value that is not a number.
    #[error("{event}: {name} is not a number")]
    NoNumber {
        /// The event.
        event: String,
        /// The field.
        name: String,
    },
    /// A value that does not fit.
    #[error("{event}: {test}: {why}")]
    Value {
        /// The event.
        event: String,
        /// The comparison.
        test: String,
        /// The reason.
        why: String,
    },
    /// The condition tests the entry and the return at once.
    #[error(
        "{0}: what is tested at the entry and at the return of a system call can be joined by && \
         only: the kernel tests each by itself"
    )]
    Mixed(String),
    /// The kernel's description of an event cannot be parsed.
    #[error("{0}: its format is not understood: {1}")]
    Format(String, DescriptionError),
    /// The kernel refuses the histogram.
    #[error("{event}: the kernel refuses to count by these keys: {trigger}")]
    Key {
        /// The event.
        event: String,
        /// The histogram.
        trigger: String,
    },
    /// The instance.
    #[error(transparent)]
    Instance(#[from] crate::probes::error::Error),
    /// A failed operation on a file.
    #[error(transparent)]
    Io(#[from] IoError),
}
