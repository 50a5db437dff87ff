// SPDX-License-Identifier: GPL-2.0

//! Errors of registering a tracer.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::alloc::AllocError;
use kernel::prelude::*;

/// Reason why a tracer could not be registered. No function is traced then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// A name, a pattern or an address matches no function that ftrace can trace: none exists, or
    /// the function is `notrace` (`ENOENT`).
    NotFound,
    /// No names, patterns or addresses were given (`EINVAL`).
    NoFilter,
    /// Not a name or a pattern (`EINVAL`).
    BadPattern,
    /// A function has a value in this set already, or is listed twice (`EEXIST`).
    Duplicate,
    /// No memory (`ENOMEM`).
    NoMemory,
    /// ftrace has found a defect and has failed (`ENODEV`).
    FtraceFailed,
    /// Called by a handler, or in another context that must not sleep (`EBUSY`).
    MustNotSleep,
    /// The handler's module is being unloaded, or has been unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// Any other error.
    Other(Error),
}

impl From<Error> for TraceError {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOENT => Self::NotFound,
            e if e == EEXIST => Self::Duplicate,
            e if e == ENOMEM => Self::NoMemory,
            e if e == ENODEV => Self::FtraceFailed,
            e if e == ESHUTDOWN => Self::ModuleGoes,
            e => Self::Other(e),
        }
    }
}

impl From<AllocError> for TraceError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::NotFound => ENOENT,
            TraceError::NoFilter | TraceError::BadPattern => EINVAL,
            TraceError::Duplicate => EEXIST,
            TraceError::NoMemory => ENOMEM,
            TraceError::FtraceFailed => ENODEV,
            TraceError::ModuleGoes => ESHUTDOWN,
            TraceError::MustNotSleep => EBUSY,
            TraceError::Other(e) => e,
        }
    }
}

/// Returns an error in contexts that must not sleep, as in a handler.
pub(crate) fn must_sleep() -> Result<(), TraceError> {
    match may_sleep() {
        true => Ok(()),
        false => Err(TraceError::MustNotSleep),
    }
}
