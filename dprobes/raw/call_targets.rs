// SPDX-License-Identifier: GPL-2.0

//! Targets of `callk` and `exit`: functions that modules have registered by `<linux/dprobes.h>`,
//! whose tables are in `call_targets.c`, and the kernel's debugger and dumps.
//!
//! Contexts: any, NMI included.

use ferro_dprobes_core::Outcome;
use ferro_dprobes_core::EXITS;
use ferro_sys::bindings;
use kernel::prelude::*;

static_assert!(EXITS as u32 == bindings::DPROBES_EXITS);

/// Calls the function registered under the number of an exit, if any, with the log of the run.
pub(crate) fn call_exit(number: u8, outcome: &Outcome, log: &[u8]) {
    let exit = bindings::dprobes_exit {
        major: outcome.major,
        minor: outcome.minor,
        log: log.as_ptr().cast(),
        len: log.len(),
    };
    // SAFETY: `exit` is a variable of this function, and the log is borrowed. Interrupts are off
    // while a program runs, which unregistering waits for.
    unsafe { bindings::ferro_dprobes_exit(number.into(), &raw const exit) };
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

/// Stops in the kernel's debugger, if there is one.
pub(crate) fn debugger() {
    // SAFETY: No requirement; without a connected debugger it does nothing.
    unsafe { bindings::ferro_dprobes_debugger() }
}

/// Crashes the kernel, as the system request `c` does. A loaded crash kernel makes a dump.
pub(crate) fn crash() {
    // SAFETY: Has no requirement. Root has loaded the program, and wants the crash.
    unsafe { bindings::ferro_dprobes_crash() }
}

/// Ends the current process with a core dump once it returns to user space. Does nothing for
/// threads of the kernel.
pub(crate) fn core_dump() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_core_dump() }
}

/// Waits until the signals of [`core_dump`] have been sent. Context: process; sleeps.
pub(crate) fn flush_core_dumps() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_finish() }
}
