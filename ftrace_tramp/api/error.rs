// SPDX-License-Identifier: GPL-2.0

//! Why a tracer could not be registered.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::alloc::AllocError;
use kernel::prelude::*;

/// Why a tracer could not be registered. Nothing is traced then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// A name, a pattern or an address stands for no function that ftrace can trace: there is none, or it is `notrace`
    /// (`ENOENT`).
    NotFound,
    /// Neither names nor patterns nor addresses were given (`EINVAL`).
    NoFilter,
    /// Not a name or a pattern (`EINVAL`).
    BadPattern,
    /// A function has a value in this set already, or is there twice (`EEXIST`).
    Twice,
    /// No memory (`ENOMEM`).
    NoMemory,
    /// ftrace has found a defect, and given up (`ENODEV`).
    GivenUp,
    /// Called by a handler, or elsewhere where nothing may sleep (`EBUSY`).
    MustNotSleep,
    /// The handler's module is being unloaded, or has been (`ESHUTDOWN`).
    ModuleGoes,
    /// Whatever else.
    Other(Error),
}

impl From<Error> for TraceError {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOMEM => Self::NoMemory,
            e if e == ENODEV => Self::GivenUp,
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
            TraceError::Twice => EEXIST,
            TraceError::NoMemory => ENOMEM,
            TraceError::GivenUp => ENODEV,
            TraceError::ModuleGoes => ESHUTDOWN,
            TraceError::MustNotSleep => EBUSY,
            TraceError::Other(e) => e,
        }
    }
}

/// Refuses what sleeps where nothing may, as in a handler.
pub(crate) fn must_sleep() -> Result<(), TraceError> {
    match may_sleep() {
        true => Ok(()),
        false => Err(TraceError::MustNotSleep),
    }
}
