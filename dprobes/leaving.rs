// SPDX-License-Identifier: GPL-2.0

//! What programs exit to.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::End;

use crate::raw::facility;

/// Whether a run asks for something at its end, after which there may be nothing more.
#[inline(always)]
pub(crate) fn is_asked(end: End) -> bool {
    matches!(end, End::Debugger | End::CrashDump | End::CoreDump)
}

/// Does what a run asks for at its end.
#[cold]
pub(crate) fn leave(end: End) {
    match end {
        End::Debugger => facility::debugger(),
        End::CrashDump => facility::crash(),
        End::CoreDump => facility::core_dump(),
        End::Exit | End::Abort | End::Remove | End::Fault(_) => (),
    }
}
