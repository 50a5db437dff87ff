// SPDX-License-Identifier: GPL-2.0

//! Errors of registering a jprobe.
#![deny(unsafe_code)]

use kernel::alloc::AllocError;
use kernel::fmt;
use kernel::prelude::*;

/// Reason why a jprobe cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JprobeError {
    /// The jprobe has no handler.
    NoEntry,
    /// The handler is not a function.
    EntryIsNotText,
    /// The client has set a kprobe handler.
    HasHandlers,
    /// The jprobe is already registered.
    Registered,
    /// The place is not the start of a function, where the arguments are.
    NotAtEntry,
    /// The engine has refused the kprobe.
    Engine(Error),
    /// No memory.
    NoMemory,
}

impl From<AllocError> for JprobeError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

impl JprobeError {
    /// Returns the error for clients.
    pub(crate) fn errno(self) -> Error {
        match self {
            Self::Engine(error) => error,
            Self::NoMemory => ENOMEM,
            _ => EINVAL,
        }
    }
}

impl fmt::Display for JprobeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEntry => f.write_str("it has no handler"),
            Self::EntryIsNotText => f.write_str("its handler is not code of the kernel"),
            Self::HasHandlers => f.write_str("it has handlers of a kprobe"),
            Self::Registered => f.write_str("it is registered already"),
            Self::NotAtEntry => f.write_str("not the start of a function"),
            Self::Engine(error) => f.write_fmt(fmt!("error {} from kprobes", error.to_errno())),
            Self::NoMemory => f.write_str("no memory"),
        }
    }
}
