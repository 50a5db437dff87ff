// SPDX-License-Identifier: GPL-2.0

//! Errors of registering, arming and disarming a handler.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::alloc::AllocError;
use kernel::prelude::*;

use crate::raw::handler::NotSet;

/// Error of registering, arming or disarming a handler. An operation that fails changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The caller is a handler, or another context that must not sleep (`EBUSY`).
    MustNotSleep,
    /// The handler's module is being unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// Another handler is the current one (`EBUSY`); the kernel's log names it.
    Occupied,
    /// No memory (`ENOMEM`).
    NoMemory,
}

impl From<Error> for kernel::error::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::MustNotSleep | Error::Occupied => EBUSY,
            Error::ModuleGoes => ESHUTDOWN,
            Error::NoMemory => ENOMEM,
        }
    }
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

impl From<NotSet> for Error {
    fn from(reason: NotSet) -> Self {
        match reason {
            NotSet::ModuleGoes => Self::ModuleGoes,
            NotSet::Occupied => Self::Occupied,
        }
    }
}

/// Returns [`Error::MustNotSleep`] in a context that cannot sleep, such as a handler.
pub(crate) fn must_sleep() -> Result<(), Error> {
    match may_sleep() {
        true => Ok(()),
        false => Err(Error::MustNotSleep),
    }
}
