// SPDX-License-Identifier: GPL-2.0

//! Exception tables of the kernel, which are not exported to modules.
//!
//! Contexts: fault.

use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;

/// Continues at the extable fixup of the instruction pointer. Returns true if there is one.
///
/// # Safety
///
/// `regs` are the registers of an exception `trapnr`, of the instruction at their instruction
/// pointer.
pub unsafe fn fix_up(regs: &mut Regs, trapnr: usize) -> bool {
    let trapnr = i32::try_from(trapnr).unwrap_or(0);
    // SAFETY: The caller guarantees the function's requirements; only entries for page faults that
    // print them use the error code and the address.
    unsafe { bindings::fixup_exception(regs.as_ptr(), trapnr, 0, 0) != 0 }
}
