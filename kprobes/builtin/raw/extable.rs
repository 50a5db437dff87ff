// SPDX-License-Identifier: GPL-2.0

//! The kernel's exception tables, which it shows to no module.
//!
//! Contexts: fault.

use ferro_sys::code::regs::Regs;
use kernel::bindings;

/// Goes on where the exception table says for the instruction pointer. Whether it says something.
///
/// # Safety
///
/// `regs` are those of an exception `trapnr`, of the instruction at their instruction pointer.
pub unsafe fn fix_up(regs: &mut Regs, trapnr: usize) -> bool {
    let trapnr = i32::try_from(trapnr).unwrap_or(0);
    // SAFETY: The caller guarantees what the function wants to know; error code and address are for those entries of page
    // faults that print them.
    unsafe { bindings::fixup_exception(regs.as_ptr(), trapnr, 0, 0) != 0 }
}
