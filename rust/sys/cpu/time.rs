// SPDX-License-Identifier: GPL-2.0

//! Time stamps for tracing.

use crate::bindings;

/// Monotonic time in nanoseconds. Context: any, NMI included.
#[inline]
pub fn mono_fast_ns() -> u64 {
    // SAFETY: Callable in any context.
    unsafe { bindings::ktime_get_mono_fast_ns() }
}
