// SPDX-License-Identifier: GPL-2.0

//! Errors of the registry for callers in Rust, and their error numbers for C and user space.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use ferro_gkhi_core::Denied;
use ferro_gkhi_core::NoMemory;
use ferro_gkhi_core::Refused;
use ferro_gkhi_core::Taken;
use ferro_sys::bindings;
use ferro_sys::hook::can_wait;
use ferro_sys::hook::may_tell;
use kernel::alloc::AllocError;
use kernel::error::code;
use kernel::prelude::*;

/// Reason why the registry refused a request. The request has changed nothing, except for
/// [`Error::StillCalled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A record, exit, hook or list is missing. -EINVAL
    Missing,
    /// A name is malformed, too long, or the name of a file in debugfs `gkhi/`. -EINVAL
    BadName,
    /// An unknown flag. -EINVAL
    BadFlags,
    /// The function is not in kernel text, or in text that is freed after initialisation. -EINVAL
    NoCode,
    /// A hook's description contradicts itself. -EINVAL
    BadHook,
    /// The record or the hook is registered already. -EALREADY
    Already,
    /// No hook has this name. -ENOENT
    NoHook,
    /// The exit was compiled for more parameters than the hook has. -E2BIG
    TooManyParams,
    /// The exit was compiled for other parameters than the hook has. -EPROTOTYPE
    OtherParams,
    /// The hook does not fire where the other CPUs can be stopped. -EOPNOTSUPP
    CannotStop,
    /// The hook has an exit, and it or the new exit permits only one. -EBUSY
    Occupied,
    /// The hook has a first exit. -EEXIST
    FirstTaken,
    /// The hook has a last exit. -EEXIST
    LastTaken,
    /// The name is taken. -EEXIST
    NameTaken,
    /// An exit or a hook is not registered. -ESRCH
    Unregistered,
    /// The exit's hook has been deleted. -ENODEV
    Deleted,
    /// The module of the exit or of the hook is being unloaded. -ESHUTDOWN
    ModuleGoes,
    /// A list of records has no end. -ELOOP
    Endless,
    /// The caller is in an exit or cannot sleep, so that it would wait for itself. -EDEADLK
    CannotWait,
    /// The exit is disarmed, but a call of it has not returned: it sleeps where it must not, or is
    /// the caller. -EBUSY
    StillCalled,
    /// -ENOMEM
    NoMemory,
}

impl Error {
    /// Returns the reason for the log, or `None` if the caller's context or a lack of memory
    /// explains the error.
    fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::Missing => "its function or a name is missing",
            Self::BadName => {
                "a name has other characters than A-Z a-z 0-9 _ - . or is too long or reserved"
            }
            Self::BadFlags => "its flags are unknown, or contradict each other",
            Self::NoCode => "its function is no code, or is freed after initialisation",
            Self::BadHook => "it is no static, or its parameters are not as many as their names",
            Self::Already => "it is registered already",
            Self::NoHook => "no such hook is identified",
            Self::TooManyParams => "it was compiled for more parameters than the hook has",
            Self::OtherParams => {
                "it was compiled for other parameters, or another context, than the hook has"
            }
            Self::CannotStop => "the other CPUs cannot be stopped where the hook fires",
            Self::Occupied => "the hook has an exit, and can have or was asked for only one",
            Self::FirstTaken => "the hook has a first exit",
            Self::LastTaken => "the hook has a last exit",
            Self::NameTaken => "the name is taken",
            Self::ModuleGoes => "its module is being unloaded",
            Self::Unregistered
            | Self::Deleted
            | Self::Endless
            | Self::CannotWait
            | Self::StillCalled
            | Self::NoMemory => return None,
        })
    }

    /// Logs the reason for refusing the hook or its exit, because several reasons share an errno.
    pub(crate) fn log_refusal(self, hook: &CStr, exit: Option<&CStr>) {
        let Some(reason) = self.reason().filter(|_| may_tell()) else {
            return;
        };
        match exit {
            Some(exit) => pr_notice!("exit {exit} on hook {hook} refused: {reason}\n"),
            None => pr_notice!("hook {hook} refused: {reason}\n"),
        }
    }
}

impl From<Error> for kernel::error::Error {
    fn from(error: Error) -> Self {
        // For numbers without a constant in the kernel crate.
        let errno = |errno: u32| Self::from_errno(errno.try_into().map_or(0, |e: i32| -e));
        match error {
            Error::Missing | Error::BadName | Error::BadFlags | Error::NoCode | Error::BadHook => {
                code::EINVAL
            }
            Error::Already => errno(bindings::EALREADY),
            Error::NoHook => code::ENOENT,
            Error::TooManyParams => code::E2BIG,
            Error::OtherParams => errno(bindings::EPROTOTYPE),
            Error::CannotStop => errno(bindings::EOPNOTSUPP),
            Error::Occupied | Error::StillCalled => code::EBUSY,
            Error::FirstTaken | Error::LastTaken | Error::NameTaken => code::EEXIST,
            Error::Unregistered => code::ESRCH,
            Error::Deleted => code::ENODEV,
            Error::ModuleGoes => code::ESHUTDOWN,
            Error::Endless => code::ELOOP,
            Error::CannotWait => errno(bindings::EDEADLK),
            Error::NoMemory => ENOMEM,
        }
    }
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unregistered => Self::Unregistered,
            Denied::Detached => Self::Deleted,
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Taken(Taken::Hook) => Self::Occupied,
            Refused::Taken(Taken::First) => Self::FirstTaken,
            Refused::Taken(Taken::Last) => Self::LastTaken,
            Refused::NoHook => Self::NoHook,
            Refused::NoMemory => Self::NoMemory,
        }
    }
}

impl From<NoMemory> for Error {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// Returns an error if the caller cannot wait for dispatches, as every change does.
pub(crate) fn check_context() -> Result<(), Error> {
    can_wait().then_some(()).ok_or(Error::CannotWait)
}
