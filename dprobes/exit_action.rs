// SPDX-License-Identifier: GPL-2.0

//! What programs exit to.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::End;
use ferro_core::rpn::Outcome;

use crate::raw::call_targets;
use crate::raw::exit_facility;

/// Whether a run asks for something at its end, after which there may be nothing more.
#[inline(always)]
pub(crate) fn is_asked(end: End) -> bool {
    matches!(
        end,
        End::Debugger | End::CrashDump | End::CoreDump | End::Facility(_)
    )
}

/// Does what a run asks for at its end, which has logged this.
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
