// SPDX-License-Identifier: GPL-2.0

//! What modules have registered for `callk`: `callee.c` has it, for the functions of `<linux/dprobes.h>`.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

/// Calls what is registered under a number. `None` if nothing is.
pub(crate) fn call(number: u32, argument: u64) -> Option<u64> {
    let mut result = 0;
    // SAFETY: `result` is a variable of this function. Preemption is off while a program runs, which unregistering waits for.
    let is_there =
        unsafe { bindings::ferro_dprobes_call(number, argument as usize, &raw mut result) };
    is_there.then_some(result as u64)
}
