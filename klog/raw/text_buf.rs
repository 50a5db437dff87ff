// SPDX-License-Identifier: GPL-2.0

//! The buffers of a CPU that messages are formatted into, and its count of those that were missed: `printk.c` has them.
//!
//! Contexts: any, NMI included.

use ferro_sys::cpu::with_irqs_off;
use kernel::bindings;

/// The closing NUL of a text in C.
const NUL: usize = 1;

/// Calls `f` with a buffer of this CPU and interrupts off. Within `f` the message counts as missed, except in an NMI.
pub(crate) fn with_text_buf(f: impl FnOnce(&mut [u8])) {
    with_irqs_off(|_| {
        // SAFETY: It requires interrupts to be off, which they are until this closure returns, and that what it gives is
        // given back on this CPU, which is done below.
        let text = unsafe { bindings::ferro_klog_text_get() };
        if text.is_null() {
            return;
        }
        let max = usize::try_from(bindings::KLOG_PRINTK_MAX).unwrap_or(NUL) - NUL;
        // SAFETY: The buffer is static per-CPU data of KLOG_PRINTK_MAX bytes, initialised with zeros. An NMI that comes in
        // between gets another one, and `f` none, as this is marked as in use until it is put.
        f(unsafe { core::slice::from_raw_parts_mut(text.cast(), max) });
        // SAFETY: Gives back what the call above gave: interrupts have been off since, so this is the same CPU, and what
        // has interrupted this has given back its own.
        unsafe { bindings::ferro_klog_text_put() };
    });
}

/// Messages since boot that no handler got although there was one.
pub fn missed() -> u64 {
    // SAFETY: It has no requirement: it adds up per-CPU counters, with a single load each.
    unsafe { bindings::klog_missed() }
}
