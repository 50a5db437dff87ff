// SPDX-License-Identifier: GPL-2.0

//! Actions at the end of a program: debugger, dumps and exit facilities.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::End;
use ferro_core::rpn::Outcome;

use crate::raw::call_targets;
use crate::raw::exit_facility;

/// Returns true if a run asks for an action at its end, after which the kernel may not continue.
#[inline(always)]
pub(crate) fn is_asked(end: End) -> bool {
    matches!(
        end,
        End::Debugger | End::CrashDump | End::CoreDump | End::Facility(_)
    )
}

/// Performs the action that a run asks for at its end. `log` is the log of the run.
#[cold]
pub(crate) fn leave(outcome: &Outcome, log: &[u8]) {
    match outcome.end {
        End::Debugger => exit_facility::debugger(),
        End::CrashDump => exit_facility::crash(),
        End::CoreDump => exit_facility::core_dump(),
        End::Facility(number) => call_targets::exit(number, outcome, log),
        End::Exit | End::Abort | End::Remove | End::Fault(_) => (),
    }
}
