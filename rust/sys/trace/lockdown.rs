// SPDX-License-Identifier: GPL-2.0

//! Checks of lockdown: kernel data that even root must not read or change.
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

/// Returns true if lockdown forbids user space to read kernel memory by probes, at level
/// *confidentiality*. Logs the attempt of the current task.
pub fn forbids_probes() -> bool {
    // SAFETY: Reads the current task and the lockdown level, which is allowed in process context.
    unsafe { ferro_lockdown_forbids_probes() }
}

/// Returns true if lockdown forbids user space to read traced data, at level *confidentiality*.
/// Logs the attempt of the current task.
pub fn forbids_traces() -> bool {
    // SAFETY: Reads the current task and the lockdown level, which is allowed in process context.
    unsafe { ferro_lockdown_forbids_traces() }
}

/// Returns true if lockdown forbids user space to change kernel memory or registers, from level
/// *integrity* up. Logs the attempt of the current task.
pub fn forbids_writes() -> bool {
    // SAFETY: Reads the current task and the lockdown level, which is allowed in process context.
    unsafe { ferro_lockdown_forbids_writes() }
}
