// SPDX-License-Identifier: GPL-2.0

//! Errors of registering, arming and disarming a probe.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_drop::may_sleep;
use kernel::alloc::AllocError;
use kernel::prelude::*;

/// Reason why a probe could not be registered, armed or disarmed.
///
/// The Rust engine shows in debugfs, in `kprobes/refused`, the rule that has refused a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// No such symbol, or the code has been unloaded (`ENOENT`).
    NotFound,
    /// The place must not be probed: not kernel code, code that probes depend on, or a return probe
    /// not at the start of a function. Also if neither a symbol nor an address was given
    /// (`EINVAL`).
    Refused,
    /// ftrace cannot trace the function (`EINVAL`).
    Untraceable,
    /// The address is not the start of an instruction (`EILSEQ`).
    NotAnInstruction,
    /// The engine cannot execute a copy of this instruction (`EOPNOTSUPP`).
    NotSupported,
    /// `max_active` calls would take more memory than a return probe may have (`E2BIG`).
    TooMany,
    /// No memory (`ENOMEM`).
    NoMemory,
    /// No engine is loaded yet: load its module first (`EPROBE_DEFER`).
    NoEngine,
    /// Called by a handler, or in another context that must not sleep (`EBUSY`).
    MustNotSleep,
    /// The handlers belong to a module that is being unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// Any other error.
    Other(Error),
}

impl From<Error> for ProbeError {
    fn from(error: Error) -> Self {
        match error {
            e if e == ENOENT => Self::NotFound,
            e if e == EINVAL => Self::Refused,
            e if e == EILSEQ => Self::NotAnInstruction,
            e if e == EOPNOTSUPP => Self::NotSupported,
            e if e == E2BIG => Self::TooMany,
            e if e == ENOMEM => Self::NoMemory,
            e if e == EPROBE_DEFER => Self::NoEngine,
            e if e == ESHUTDOWN => Self::ModuleGoes,
            e => Self::Other(e),
        }
    }
}

impl From<AllocError> for ProbeError {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

impl From<ProbeError> for Error {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::NotFound => ENOENT,
            ProbeError::Refused | ProbeError::Untraceable => EINVAL,
            ProbeError::NotAnInstruction => EILSEQ,
            ProbeError::NotSupported => EOPNOTSUPP,
            ProbeError::TooMany => E2BIG,
            ProbeError::NoMemory => ENOMEM,
            ProbeError::NoEngine => EPROBE_DEFER,
            ProbeError::MustNotSleep => EBUSY,
            ProbeError::ModuleGoes => ESHUTDOWN,
            ProbeError::Other(e) => e,
        }
    }
}

/// Returns an error in contexts that must not sleep, as in a handler.
pub(crate) fn must_sleep() -> Result<(), ProbeError> {
    match may_sleep() {
        true => Ok(()),
        false => Err(ProbeError::MustNotSleep),
    }
}
