// SPDX-License-Identifier: GPL-2.0

//! Lockdown: what even root must not have the kernel show, or change in it.
//!
//! Contexts: process.

extern "C" {
    /// `lockdown.h`
    fn ferro_lockdown_forbids_probes() -> bool;
    /// `lockdown.h`
    fn ferro_lockdown_forbids_traces() -> bool;
    /// `lockdown.h`
    fn ferro_lockdown_forbids_writes() -> bool;
}

/// Whether lockdown forbids user space to read the kernel's memory by probes, as it does from *confidentiality* on. That the
/// current task has tried to is logged.
pub fn forbids_probes() -> bool {
    // SAFETY: Looks at the current task and at how far the kernel is locked down, which it may at any time in process context.
    unsafe { ferro_lockdown_forbids_probes() }
}

/// Whether lockdown forbids user space to read what was traced, as it does from *confidentiality* on. That the current task has
/// tried to is logged.
pub fn forbids_traces() -> bool {
    // SAFETY: Looks at the current task and at how far the kernel is locked down, which it may at any time in process context.
    unsafe { ferro_lockdown_forbids_traces() }
}

/// Whether lockdown forbids user space to change the kernel's memory or registers, as it does from *integrity* on. That the current
/// task has tried to is logged.
pub fn forbids_writes() -> bool {
    // SAFETY: Looks at the current task and at how far the kernel is locked down, which it may at any time in process context.
    unsafe { ferro_lockdown_forbids_writes() }
}
