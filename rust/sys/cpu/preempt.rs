// SPDX-License-Identifier: GPL-2.0

//! Sections that stay on their CPU, without a function call.
//!
//! Contexts: any, NMI included.

use kernel::types::NotThreadSafe;

// RUST-KERNEL: there is no guard for this; ours until there is, inlined.
/// A section without preemption. Interrupts and NMIs stay possible.
pub struct PreemptOff(NotThreadSafe);

impl PreemptOff {
    /// Turns preemption off.
    #[inline(always)]
    pub fn new() -> Self {
        disable();
        Self(NotThreadSafe)
    }
}

impl Default for PreemptOff {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PreemptOff {
    #[inline(always)]
    fn drop(&mut self) {
        enable();
    }
}

/// Ends a section without preemption that a fault has left before its end.
///
/// # Safety
///
/// The section has turned preemption off on this CPU, and no other code turns it on for the
/// section.
pub unsafe fn end() {
    enable();
}

/// On x86 the count is a per-CPU word. It is 0 if preemption is on and a task is waiting for the
/// CPU.
#[cfg(all(CONFIG_PREEMPT_COUNT, CONFIG_X86_64, not(CONFIG_UML)))]
mod count {
    extern "C" {
        /// `asm/preempt.h`.
        pub(super) static __preempt_count: usize;
    }

    /// Applies an instruction to the count of this CPU.
    macro_rules! operate {
        ($op:literal $(, $($rest:tt)*)?) => {
            #[cfg(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS)]
            core::arch::asm!(
                concat!($op, " qword ptr gs:[rip + {count}]"), $($($rest)*,)?
                count = sym __preempt_count
            );
            #[cfg(not(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS))]
            core::arch::asm!(
                concat!($op, " dword ptr gs:[rip + {count}]"), $($($rest)*,)?
                count = sym __preempt_count
            );
        };
    }

    #[inline(always)]
    pub(super) fn disable() {
        // SAFETY: One instruction on this CPU's count; also a barrier for the compiler.
        unsafe {
            operate!("inc");
        }
    }

    #[inline(always)]
    pub(super) fn enable() {
        // SAFETY: Undoes `disable()`. At 0 the scheduler has to be called.
        unsafe {
            #[cfg(not(CONFIG_PREEMPTION))]
            operate!("dec");
            #[cfg(CONFIG_PREEMPTION)]
            operate!("dec", "jz {resched}", resched = label { resched() });
        }
    }

    #[cfg(CONFIG_PREEMPTION)]
    #[cold]
    fn resched() {
        // SAFETY: Preemption is on.
        unsafe { crate::bindings::ferro_preempt_schedule() }
    }
}

#[cfg(all(CONFIG_PREEMPT_COUNT, not(all(CONFIG_X86_64, not(CONFIG_UML)))))]
mod count {
    #[inline(always)]
    pub(super) fn disable() {
        // SAFETY: No requirement.
        unsafe { crate::bindings::ferro_preempt_disable() }
    }

    #[inline(always)]
    pub(super) fn enable() {
        // SAFETY: Undoes `disable()`.
        unsafe { crate::bindings::ferro_preempt_enable() }
    }
}

/// Without preemption in the kernel, a barrier keeps the compiler from moving code out of the
/// section.
#[cfg(not(CONFIG_PREEMPT_COUNT))]
mod count {
    #[inline(always)]
    pub(super) fn disable() {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }

    pub(super) use disable as enable;
}

use count::disable;
use count::enable;
