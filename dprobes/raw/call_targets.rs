// SPDX-License-Identifier: GPL-2.0

//! Functions that modules have registered for `callk` and `exit` by `<linux/dprobes.h>`; the tables
//! are in `call_targets.c`.
//!
//! Contexts: any, NMI included.

use ferro_core::rpn::Outcome;
use ferro_core::rpn::EXITS;
use kernel::bindings;
use kernel::prelude::*;

static_assert!(EXITS as u32 == bindings::DPROBES_EXITS);

/// Calls the function registered under the number of an exit, if any, with the log of the run.
pub(crate) fn exit(number: u8, outcome: &Outcome, log: &[u8]) {
    let left = bindings::dprobes_exit {
        major: outcome.major,
        minor: outcome.minor,
        log: log.as_ptr().cast(),
        len: log.len(),
    };
    // SAFETY: `left` is a variable of this function, and the log is borrowed. Interrupts are off
    // while a program runs, which unregistering waits for.
    unsafe { bindings::ferro_dprobes_exit(number.into(), &raw const left) };
}

/// Calls the function registered under a number. Returns `None` if there is none.
pub(crate) fn call(number: u32, argument: u64) -> Option<u64> {
    let mut result = 0;
    // SAFETY: `result` is a variable of this function. Preemption is off while a program runs,
    // which unregistering waits for.
    let is_there =
        unsafe { bindings::ferro_dprobes_call(number, argument as usize, &raw mut result) };
    is_there.then_some(result as u64)
}
