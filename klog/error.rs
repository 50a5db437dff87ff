// SPDX-License-Identifier: GPL-2.0

//! Why a handler could not be registered, armed or disarmed.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::alloc::AllocError;
use kernel::prelude::*;

/// Why a handler could not be registered, armed or disarmed. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Called by a handler, or elsewhere where nothing may sleep (`EBUSY`).
    MustNotSleep,
    /// The handler is of a module that is being unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// Another handler is the current one (`EBUSY`); the kernel's log says which.
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

/// Refuses what sleeps where nothing may, as in a handler.
pub(crate) fn must_sleep() -> Result<(), Error> {
    match may_sleep() {
        true => Ok(()),
        false => Err(Error::MustNotSleep),
    }
}
