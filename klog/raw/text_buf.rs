// SPDX-License-Identifier: GPL-2.0

//! Per-CPU buffers that messages are formatted into, and counts of missed messages; both are in
//! `printk.c`.
//!
//! Contexts: any, NMI included.

use ferro_sys::bindings;
use ferro_sys::cpu::with_irqs_off;

/// Length of the NUL that ends a C string.
const NUL: usize = 1;

/// Calls `f` with a buffer of this CPU, with interrupts off. A message logged within `f` counts as
/// missed, except in an NMI.
pub(crate) fn with_text_buf(f: impl FnOnce(&mut [u8])) {
    with_irqs_off(|_| {
        // SAFETY: The call requires interrupts to be off, which they are until this closure
        // returns. It requires the buffer to be given back on this CPU, which is done below.
        let text = unsafe { bindings::ferro_klog_text_get() };
        if text.is_null() {
            return;
        }
        let max = usize::try_from(bindings::KLOG_PRINTK_MAX).unwrap_or(NUL) - NUL;
        // SAFETY: The buffer is static per-CPU data of KLOG_PRINTK_MAX bytes, initialised with
        // zeros. An NMI in between gets another buffer. A message logged within `f` gets none, as
        // this buffer is marked as in use until the call below.
        f(unsafe { core::slice::from_raw_parts_mut(text.cast(), max) });
        // SAFETY: Gives back the buffer of the call above. Interrupts have been off since, so this
        // is the same CPU, and any NMI in between has given back its own buffer.
        unsafe { bindings::ferro_klog_text_put() };
    });
}

/// Returns the number of messages since boot that the handler missed.
pub fn missed() -> u64 {
    // SAFETY: No requirement: the function adds up per-CPU counters, with a single load each.
    unsafe { bindings::klog_missed() }
}
