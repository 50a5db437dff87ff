// SPDX-License-Identifier: GPL-2.0

//! Faults of the instruction that a breakpoint replaces.
//!
//! Contexts: trap, also within NMIs.

use ferro_kprobes_builtin::raw::extable;
use ferro_sys::code::regs::Regs;
pub(crate) use ferro_sys::code::trap_frame::Trap;

/// Applies the exception table to a fault of a probed instruction. The caller has restored the
/// instruction pointer to the instruction's address.
///
/// Returns true if the table has an entry, where execution then resumes. For traps other than page
/// faults: the kernel looks up those itself.
pub(crate) fn fix_up(regs: &mut Regs, trapnr: usize) -> bool {
    // SAFETY: `hit.rs` has the registers of a fault of a copy, and has restored the instruction
    // pointer to the probed instruction: the kernel would do the same with the table's entry for
    // that address.
    unsafe { extable::fix_up(regs, trapnr) }
}
