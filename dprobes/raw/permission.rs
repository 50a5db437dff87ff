// SPDX-License-Identifier: GPL-2.0

//! Permission to change registers and memory.
//!
//! Contexts: asking process; the rest any, NMI included.

use ferro_kprobe::Alter;
use ferro_sys::bindings;
use ferro_sys::mm::nofault;
use ferro_sys::trace::lockdown;

/// Permission of a program to change registers and memory. A program gets one only if the user has
/// asked for it, may administer the system, and lockdown does not forbid it. The user then answers
/// for what the program does, as with `/dev/mem`.
pub(crate) struct Permission(Alter);

impl Permission {
    /// Returns a permission; `None` if lockdown forbids it, or the current task may not administer
    /// the system.
    pub(crate) fn obtain() -> Option<Self> {
        if !may_administer() || lockdown::forbids_writes() {
            return None;
        }
        // SAFETY: The user has asked to be allowed to change any register in any way, and may
        // change any memory of the kernel by other means, too.
        Some(Self(unsafe { Alter::new() }))
    }

    /// Returns the token to change registers.
    pub(crate) fn alter(&self) -> &Alter {
        &self.0
    }

    /// Stores `from` at an address of the kernel. Returns false if not all of it can be written.
    pub(crate) fn write_kernel(&self, to: usize, from: &[u8]) -> bool {
        // SAFETY: The user has asked to be allowed to change any memory, and may do so by other
        // means, too.
        unsafe { nofault::write_kernel(to, from) }
    }

    /// Returns true if a byte that has just been read can be written, by writing its value back.
    pub(crate) fn can_write(&self, address: usize) -> bool {
        // SAFETY: The user has asked to be allowed to change any memory. An unmapped or read-only
        // byte is not changed.
        unsafe { bindings::ferro_dprobes_try_write(address, nofault::is_user(address)) }
    }
}

/// Returns true if the current task may administer the system.
pub(crate) fn may_administer() -> bool {
    // SAFETY: Looks at the current task.
    unsafe { bindings::ferro_dprobes_capable() }
}
