// SPDX-License-Identifier: GPL-2.0

//! The kernel's exception tables.
//!
//! Contexts: fault.

use ferro_kprobes_builtin::raw::extable;
use ferro_sys::code::regs::Regs;

/// What the exception tables say about a fault of a probed instruction, to whose address the instruction pointer was put back.
///
/// Goes on where the table's entry for it says, if there is one. For traps other than page faults, for which the kernel looks
/// the address up itself.
pub(crate) fn fix_up(regs: &mut Regs, trapnr: usize) -> bool {
    // SAFETY: `hit.rs` has the registers of a fault of a copy, and has put the instruction pointer back to the probed
    // instruction: what the table has for that is what the kernel would do itself.
    unsafe { extable::fix_up(regs, trapnr) }
}
