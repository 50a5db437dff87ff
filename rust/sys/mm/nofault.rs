// SPDX-License-Identifier: GPL-2.0

//! Accesses to memory that may be unmapped or unreadable: an access that would fault fails.
//!
//! Contexts: any, NMI included.

use core::mem::MaybeUninit;
use core::ptr::without_provenance;
use core::ptr::without_provenance_mut;

use crate::bindings;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::task::Task;

/// Number of bytes in one step of a write, or of reading a text.
const PIECE: usize = 64;

/// Copies kernel memory into `to`. Returns false if a byte cannot be read.
///
/// The memory may be changing.
#[inline]
pub fn read_kernel(from: usize, to: &mut [u8]) -> bool {
    // SAFETY: The function takes any address as its source; the destination is the slice.
    unsafe {
        bindings::ferro_read_kernel(to.as_mut_ptr().cast(), without_provenance(from), to.len())
    }
}

/// Reads a `T` from kernel memory. Returns `None` if a byte cannot be read.
///
/// The memory may be changing; any bytes are a valid `T`.
#[inline]
pub fn read_kernel_as<T: FromBytes>(from: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: The function takes any address as its source; the destination is a local of this
    // size.
    let is_read = unsafe {
        bindings::ferro_read_kernel(
            value.as_mut_ptr().cast(),
            without_provenance(from),
            size_of::<T>(),
        )
    };
    // SAFETY: The function has succeeded, so that all bytes are written, and by its trait any bytes
    // are a `T`.
    is_read.then(|| unsafe { value.assume_init() })
}

/// Reads words from the stack of the current task. Returns `None` for other addresses, for which
/// the slower [`read_kernel`] is safe.
#[inline(always)]
pub fn read_stack<const WORDS: usize>(from: usize) -> Option<[u64; WORDS]> {
    let last = stack::SIZE.checked_sub(const { WORDS * size_of::<u64>() })?;
    if from.wrapping_sub(stack::start()) > last {
        return None;
    }
    let mut words = [0; WORDS];
    for (word, at) in words.iter_mut().zip((from..).step_by(size_of::<u64>())) {
        // SAFETY: The stack of the current task is mapped, from the first byte to the last, as long
        // as the task runs.
        *word = unsafe { stack::word(at) };
    }
    Some(words)
}

#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
mod stack {
    use core::arch::asm;

    use crate::bindings;
    use kernel::ffi::c_void;
    use kernel::page::PAGE_SIZE;

    pub(super) const SIZE: usize = PAGE_SIZE << bindings::THREAD_SIZE_ORDER;

    extern "C" {
        /// `asm/current.h`: a pointer to `struct task_struct`.
        static current_task: *mut c_void;
    }

    /// Returns the start of the current task's stack.
    #[inline(always)]
    pub(super) fn start() -> usize {
        let task: *mut bindings::task_struct;
        // SAFETY: One load of a per-CPU variable, which belongs to the current task on any CPU
        // it runs.
        unsafe {
            asm!("mov {task}, gs:[rip + {current}]",
                task = out(reg) task, current = sym current_task,
                options(nostack, preserves_flags, readonly))
        };
        // SAFETY: The current task is live, and its stack does not move. `layout.rs` compares the
        // offset of a later field.
        unsafe { (&raw const (*task).stack).read_volatile() }.addr()
    }

    /// Reads a word at any address of the stack. Ignores KASAN's marks, because the probed function
    /// may be about to leave its variables.
    ///
    /// # Safety
    ///
    /// The memory is mapped.
    #[inline(always)]
    pub(super) unsafe fn word(at: usize) -> u64 {
        let word: u64;
        // SAFETY: By the rules of this function. The memory may be changing.
        unsafe {
            asm!("mov {word}, [{at}]", word = out(reg) word, at = in(reg) at,
                options(nostack, preserves_flags, readonly))
        };
        word
    }
}

/// Fallback without fast access to the stack.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
mod stack {
    pub(super) const SIZE: usize = 0;

    pub(super) fn start() -> usize {
        0
    }

    /// # Safety
    ///
    /// Never called, as a stack of no bytes contains nothing.
    pub(super) unsafe fn word(_at: usize) -> u64 {
        0
    }
}

/// Copies memory of the current process into `to`. Returns false if a byte is not in memory or
/// cannot be read.
pub fn read_user(from: usize, to: &mut [u8]) -> bool {
    // SAFETY: The function takes any address as its source, and refuses those of the kernel; the
    // destination is the slice.
    let failed = unsafe {
        bindings::copy_from_user_nofault(to.as_mut_ptr().cast(), without_provenance(from), to.len())
    };
    failed == 0
}

/// Returns the `T` at an address of the current process, or `None` where [`read_user`] returns
/// false.
///
/// The process may be changing the memory; any bytes are a valid `T`.
#[inline]
pub fn read_user_as<T: FromBytes>(from: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: The function takes any address as its source, and refuses those of the kernel; the
    // destination is a local of this size.
    let failed = unsafe {
        bindings::copy_from_user_nofault(
            value.as_mut_ptr().cast(),
            without_provenance(from),
            size_of::<T>(),
        )
    };
    // SAFETY: The function has succeeded, so that all bytes are written, and by its trait any bytes
    // are a `T`.
    (failed == 0).then(|| unsafe { value.assume_init() })
}

/// Copies the text at an address of the current process, up to its NUL, as far as there is room.
/// Returns its length, or `None` if [`read_user`] fails before that.
pub fn read_user_text(from: usize, to: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    while let Some(rest) = to.get_mut(len..).filter(|rest| !rest.is_empty()) {
        let at = from.checked_add(len)?;
        // The next page may be missing, and the text may end before it.
        let most = rest.len().min(PIECE).min(PAGE_SIZE - at % PAGE_SIZE);
        let piece = rest.get_mut(..most)?;
        if !read_user(at, piece) {
            return None;
        }
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            return Some(len.saturating_add(end));
        }
        len = len.saturating_add(most);
    }
    Some(len)
}

/// Writes `from` to kernel memory. Returns false if a byte cannot be written; part of `from` may
/// have been.
///
/// # Safety
///
/// The kernel tolerates this change of its memory at any time.
pub unsafe fn write_kernel(to: usize, from: &[u8]) -> bool {
    // SAFETY: The function takes any address as its destination, and the caller guarantees that the
    // memory may be changed.
    let failed = unsafe {
        bindings::copy_to_kernel_nofault(
            without_provenance_mut(to),
            from.as_ptr().cast(),
            from.len(),
        )
    };
    failed == 0
}

/// Writes `from` to memory of the current process, without sleeping. Returns false if a byte cannot
/// be written; part of `from` may have been.
///
/// Also returns false if the memory in use on this CPU is not the current process's own: in a
/// kernel thread, which may have borrowed it, in an exiting process, and while code is being
/// patched. In an interrupt, the current process is the interrupted one.
pub fn write_user(to: usize, from: &[u8]) -> bool {
    if !has_own_memory() {
        return false;
    }
    let mut old = [0; PIECE];
    let mut at = to;
    for piece in from.chunks(PIECE) {
        // Reading fails if another process's memory is in use on this CPU; writing does not. The
        // memory in use does not change in between.
        let is_there = old
            .get_mut(..piece.len())
            .is_some_and(|old| read_user(at, old));
        if !is_there {
            return false;
        }
        // SAFETY: The function takes any address as its destination, and refuses those of the
        // kernel; the source is the slice.
        let failed = unsafe {
            bindings::copy_to_user_nofault(
                without_provenance_mut(at),
                piece.as_ptr().cast(),
                piece.len(),
            )
        };
        if failed != 0 {
            return false;
        }
        at = at.wrapping_add(piece.len());
    }
    true
}

/// Returns true if the current task belongs to a process that is not exiting.
fn has_own_memory() -> bool {
    // SAFETY: The current task is live, and other tasks do not change these two flags of it.
    let flags = unsafe { (&raw const (*Task::current_raw()).flags).read_volatile() };
    flags & (bindings::PF_KTHREAD | bindings::PF_EXITING) == 0
}

/// Returns true if an address is not in the kernel's half.
#[inline]
pub fn is_user(address: usize) -> bool {
    // The kernel is in the upper half.
    (address as isize) >= 0
}
