// SPDX-License-Identifier: GPL-2.0

//! Entries into, exits from and patches of kernel code by other means than branches, from the
//! kernel's tables.
//!
//! The tables belong to the image, or to the module of the code.
//!
//! Contexts: process; sleeps. Locks: the lock of jump labels.

use core::ops::Range;

use kernel::ffi::c_int;
use kernel::ffi::c_ulong;

use crate::code::text;

extern "C" {
    /// `text_tables.h`
    fn ferro_code_reserved(start: c_ulong, end: c_ulong) -> c_int;
    /// `text_tables.h`
    fn ferro_code_entered(start: c_ulong, end: c_ulong) -> c_int;
    /// `text_tables.h`
    fn ferro_code_exit(start: c_ulong, end: c_ulong, at: *mut c_ulong) -> c_ulong;
    /// `text_tables.h`
    fn ferro_is_rodata(start: c_ulong, end: c_ulong) -> bool;
    /// `text_tables.h`
    fn ferro_stays(addr: c_ulong) -> bool;
    /// `text_tables.h`
    fn ferro_thunk(addr: c_ulong) -> c_int;
}

/// Reason why code must not be changed or run elsewhere. Traps that are looked up by address are
/// not covered: those are `ud1` and `ud2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// A jump label.
    JumpLabel,
    /// A static call.
    StaticCall,
    /// An ftrace site.
    Ftrace,
    /// An instruction with an entry in the exception table.
    Exception,
}

/// Kind of control transfer by a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A jump label.
    JumpLabel,
    /// The fixup of an exception.
    Fixup,
}

/// Thunk of a mitigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thunk {
    /// In place of an indirect jump.
    Indirect,
    /// In place of a return.
    Return,
}

/// Returns the reason why the code in a range, which is not empty, must not be changed or run
/// elsewhere. The caller does not hold the lock of jump labels.
pub fn reserved(range: Range<usize>) -> Option<Reserved> {
    // SAFETY: Compares the addresses with those in tables; C code takes the lock and the read-side
    // sections that this needs.
    match unsafe { ferro_code_reserved(range.start, range.end) } {
        0 => None,
        1 => Some(Reserved::JumpLabel),
        2 => Some(Reserved::StaticCall),
        3 => Some(Reserved::Ftrace),
        _ => Some(Reserved::Exception),
    }
}

/// Returns the kind of table entry that leads into a range.
pub fn entered(range: Range<usize>) -> Option<Way> {
    // SAFETY: Compares the addresses with those in tables, a module's under RCU.
    match unsafe { ferro_code_entered(range.start, range.end) } {
        0 => None,
        1 => Some(Way::JumpLabel),
        _ => Some(Way::Fixup),
    }
}

/// Returns the addresses to which table entries lead from a range.
pub fn exits(range: Range<usize>) -> impl Iterator<Item = usize> {
    let mut at: c_ulong = 0;
    core::iter::from_fn(move || next_exit(&range, &mut at))
}

/// Returns the next exit, as `ferro_code_exit()`. Separate from its callers, which are in modules.
#[inline(never)]
fn next_exit(range: &Range<usize>, at: &mut c_ulong) -> Option<usize> {
    // SAFETY: Compares the addresses with those in tables, a module's under RCU; `at` can be
    // written.
    let exit = unsafe { ferro_code_exit(range.start, range.end, &raw mut *at) };
    (exit != 0).then_some(exit)
}

/// Copies constant data. Returns false if the memory is not such data.
pub fn read_rodata(at: usize, to: &mut [u8]) -> bool {
    // SAFETY: Compares the addresses with the limits of sections, a module's under RCU.
    let is = unsafe { ferro_is_rodata(at, at.saturating_add(to.len())) };
    is && text::read_text(at, to).is_ok()
}

/// Returns true for code that is neither initialisation code nor kernel entry code.
pub fn stays(addr: usize) -> bool {
    // SAFETY: Compares the address with the limits of sections, a module's under RCU.
    unsafe { ferro_stays(addr) }
}

/// Returns the thunk at an address, if there is one.
pub fn thunk(addr: usize) -> Option<Thunk> {
    // SAFETY: Compares the address with others.
    match unsafe { ferro_thunk(addr) } {
        0 => None,
        1 => Some(Thunk::Indirect),
        _ => Some(Thunk::Return),
    }
}
