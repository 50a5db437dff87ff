// SPDX-License-Identifier: GPL-2.0

//! Why a channel or an application could not be opened or changed.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::prelude::*;

/// Why a channel or an application could not be opened or changed. Each is an error number of the kernel, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelError {
    /// Sizes or names that cannot be (`EINVAL`).
    Invalid,
    /// The directory or a file is there already (`EEXIST`).
    NameTaken,
    /// There is no debugfs (`ENODEV`).
    NoDebugfs,
    /// No memory (`ENOMEM`).
    NoMemory,
    /// The task is being killed (`EINTR`).
    Killed,
    /// Called by a handler of a probe, or elsewhere where nothing may sleep (`EBUSY`).
    MustNotSleep,
    /// The module that asks is being unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// Whatever else.
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

/// Refuses what sleeps where nothing may, as in a handler.
pub(crate) fn must_sleep() -> Result<(), ChannelError> {
    match may_sleep() {
        true => Ok(()),
        false => Err(ChannelError::MustNotSleep),
    }
}
