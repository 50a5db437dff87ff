// SPDX-License-Identifier: GPL-2.0

//! Errors of channels and applications.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::prelude::*;

/// Reason why a channel or an application could not be opened or changed. Each has a kernel error
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// The sizes or names are invalid (`EINVAL`).
    Invalid,
    /// The directory or a file already exists (`EEXIST`).
    NameTaken,
    /// There is no debugfs (`ENODEV`).
    NoDebugfs,
    /// No memory (`ENOMEM`).
    NoMemory,
    /// The task is being killed (`EINTR`).
    Killed,
    /// The caller is a probe handler or another context that cannot sleep (`EBUSY`).
    MustNotSleep,
    /// The calling module is being unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// Any other error.
    Other(Error),
}

impl From<Error> for ChannelError {
    fn from(error: Error) -> Self {
        match error {
            e if e == EINVAL => Self::Invalid,
            e if e == EEXIST => Self::NameTaken,
            e if e == ENODEV => Self::NoDebugfs,
            e if e == ENOMEM => Self::NoMemory,
            e if e == EINTR => Self::Killed,
            e if e == EBUSY => Self::MustNotSleep,
            e if e == ESHUTDOWN => Self::ModuleGoes,
            e => Self::Other(e),
        }
    }
}

impl From<ChannelError> for Error {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Invalid => EINVAL,
            ChannelError::NameTaken => EEXIST,
            ChannelError::NoDebugfs => ENODEV,
            ChannelError::NoMemory => ENOMEM,
            ChannelError::Killed => EINTR,
            ChannelError::MustNotSleep => EBUSY,
            ChannelError::ModuleGoes => ESHUTDOWN,
            ChannelError::Other(e) => e,
        }
    }
}

/// Fails in contexts that cannot sleep, such as a handler.
pub(crate) fn must_sleep() -> Result<(), ChannelError> {
    match may_sleep() {
        true => Ok(()),
        false => Err(ChannelError::MustNotSleep),
    }
}
