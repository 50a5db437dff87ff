// SPDX-License-Identifier: GPL-2.0

//! Pointers, counters and flags of each CPU.
//!
//! Contexts: process, to allocate and free; any otherwise.

use core::ptr::NonNull;

use crate::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::types::NotThreadSafe;

use crate::cpu::preempt::PreemptOff;
use crate::cpu::CpuId;
use crate::cpu::IrqsOff;

/// Loads or stores a per-CPU variable of C code, a word or with `load32` 32 bits, in one
/// instruction.
///
/// # Safety
///
/// The variable is such a per-CPU variable, of this size, and all code accesses it in single
/// instructions. The caller stays on this CPU, unless any CPU's variable will do.
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
#[macro_export]
macro_rules! this_cpu {
    (load $variable:ident) => {{
        let value: usize;
        core::arch::asm!("mov {value}, gs:[rip + {variable}]",
            value = out(reg) value, variable = sym $variable,
            options(nostack, preserves_flags, readonly));
        value
    }};
    (load32 $variable:ident) => {{
        let value: u32;
        core::arch::asm!("mov {value:e}, gs:[rip + {variable}]",
            value = out(reg) value, variable = sym $variable,
            options(nostack, preserves_flags, readonly));
        value
    }};
    (store $variable:ident, $value:expr) => {
        core::arch::asm!("mov gs:[rip + {variable}], {value}",
            value = in(reg) $value, variable = sym $variable,
            options(nostack, preserves_flags))
    };
    (clear $variable:ident) => {
        core::arch::asm!("mov qword ptr gs:[rip + {variable}], 0", variable = sym $variable,
            options(nostack, preserves_flags))
    };
}

/// `T * __percpu *`: one pointer a CPU, NULL at first.
///
/// C code reads the pointers without synchronisation, as `<linux/relay.h>` does.
///
/// # Invariants
///
/// The pointer is from `alloc_percpu(void *)` and has not been freed.
#[repr(transparent)]
pub struct PerCpuPtr<T> {
    slots: NonNull<*mut T>,
}

// SAFETY: Per-CPU memory belongs to no task: another one may free it. It does not own the targets
// of its pointers.
unsafe impl<T> Send for PerCpuPtr<T> {}
// SAFETY: The slots are atomics; they give away raw pointers only, which take `unsafe` to follow.
unsafe impl<T> Sync for PerCpuPtr<T> {}

impl<T> PerCpuPtr<T> {
    /// Allocates the pointers. Context: process. Errors: -ENOMEM.
    pub fn new() -> Result<Self> {
        // SAFETY: No requirement.
        let slots = unsafe { bindings::ferro_alloc_percpu_ptr() };
        // INVARIANT: Just allocated.
        Ok(Self {
            slots: NonNull::new(slots.cast()).ok_or(ENOMEM)?,
        })
    }

    /// Returns the slot of `cpu`.
    pub fn slot(&self, cpu: CpuId) -> &Atomic<*mut T> {
        // SAFETY: By the invariants of both types this is the address of a live pointer of the
        // area, which `self` keeps. All code accesses it with single loads and stores.
        unsafe {
            Atomic::from_ptr(
                bindings::ferro_per_cpu_ptr(self.slots.as_ptr().cast(), cpu.get()).cast(),
            )
        }
    }
}

impl<T> PerCpuPtr<T> {
    /// Returns the pointer of this CPU.
    #[inline(always)]
    pub fn this_cpu(&self, _preempt: &PreemptOff) -> *mut T {
        // SAFETY: By the type invariant.
        unsafe { load_this_cpu(self.slots.as_ptr()) }
    }
}

/// Returns the pointer of this CPU. The caller must stay on it.
///
/// # Safety
///
/// `slots` is from `alloc_percpu(T *)`, has not been freed, and the pointers are accessed with
/// single loads and stores.
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
#[inline(always)]
pub unsafe fn load_this_cpu<T>(slots: *mut *mut T) -> *mut T {
    let pointer: *mut T;
    // SAFETY: By the rules of this function; on x86 the address is relative to the segment.
    unsafe {
        core::arch::asm!("mov {pointer}, gs:[{slots}]", pointer = out(reg) pointer,
            slots = in(reg) slots, options(nostack, preserves_flags, readonly))
    };
    pointer
}

/// Returns the pointer of this CPU. The caller must stay on it.
///
/// # Safety
///
/// `slots` is from `alloc_percpu(T *)`, has not been freed, and the pointers are accessed with
/// single loads and stores.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
#[inline(always)]
pub unsafe fn load_this_cpu<T>(slots: *mut *mut T) -> *mut T {
    // SAFETY: By the rules of this function.
    unsafe { crate::sync::shared_word::load(bindings::ferro_this_cpu_ptr(slots.cast()).cast()) }
}

impl<T> Drop for PerCpuPtr<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the slots have no users left.
        unsafe { bindings::free_percpu(self.slots.as_ptr().cast()) }
    }
}

// RUST-KERNEL: there is no `kernel::percpu`, for any of the types here; ours until there is, with
// access from NMIs.
/// A counter with a separate word for each CPU.
///
/// # Invariants
///
/// The pointer is from `alloc_percpu(unsigned long)` and has not been freed.
pub struct PerCpuCounter {
    words: NonNull<usize>,
}

// SAFETY: Per-CPU memory belongs to no task: another one may free it.
unsafe impl Send for PerCpuCounter {}
// SAFETY: Each CPU changes its own word in one instruction; readers load single words.
unsafe impl Sync for PerCpuCounter {}

impl PerCpuCounter {
    /// Makes a counter of 0. Context: process. Errors: -ENOMEM.
    pub fn new() -> Result<Self> {
        // A word is as large as a pointer, and zeroed.
        const { assert!(size_of::<usize>() == size_of::<*mut ()>()) };
        // SAFETY: No requirement.
        let words = unsafe { bindings::ferro_alloc_percpu_ptr() };
        // INVARIANT: Just allocated.
        Ok(Self {
            words: NonNull::new(words.cast()).ok_or(ENOMEM)?,
        })
    }

    /// Returns the per-CPU pointer for C code and assembly, which increment the word of their CPU.
    pub fn as_ptr(&self) -> *mut usize {
        self.words.as_ptr()
    }

    /// Adds 1. Context: any.
    #[inline(always)]
    pub fn inc(&self) {
        // SAFETY: By the type invariant.
        unsafe { inc_this_cpu(self.words.as_ptr()) };
    }

    /// Returns the sum over all CPUs, which may change concurrently.
    pub fn sum(&self) -> usize {
        let mut sum: usize = 0;
        for cpu in crate::cpu::possible() {
            // SAFETY: By the invariants of both types this is a live word of the area.
            sum = sum.wrapping_add(unsafe {
                let word = bindings::ferro_per_cpu_ptr(self.words.as_ptr().cast(), cpu.get());
                crate::sync::shared_word::load(word.cast::<usize>())
            });
        }
        sum
    }
}

impl Drop for PerCpuCounter {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the counter has no users left.
        unsafe { bindings::free_percpu(self.words.as_ptr().cast()) }
    }
}

/// A flag of every CPU, set while an activity is in progress there.
///
/// # Invariants
///
/// The pointer is from `alloc_percpu(unsigned long)` and has not been freed.
pub struct PerCpuFlag {
    words: NonNull<usize>,
}

// SAFETY: Per-CPU memory belongs to no task: another one may free it.
unsafe impl Send for PerCpuFlag {}
// SAFETY: A CPU uses its own word only, and with interrupts off.
unsafe impl Sync for PerCpuFlag {}

impl PerCpuFlag {
    /// Makes flags that are all clear. Context: process. Errors: -ENOMEM.
    pub fn new() -> Result<Self> {
        // SAFETY: No requirement.
        let words = unsafe { bindings::ferro_alloc_percpu_ptr() };
        // INVARIANT: Just allocated, a zeroed word a CPU.
        Ok(Self {
            words: NonNull::new(words.cast()).ok_or(ENOMEM)?,
        })
    }

    /// Sets the flag of this CPU until the guard is dropped; `None` if it is set. Context: any, NMI
    /// included.
    #[inline(always)]
    pub fn enter<'a>(&'a self, _irqs: &'a IrqsOff) -> Option<PerCpuEntered<'a>> {
        // SAFETY: By the type invariant; `drop()` undoes it.
        unsafe { set_this_cpu(self.words.as_ptr()) }.then(|| PerCpuEntered {
            flag: self,
            _not_send: NotThreadSafe,
        })
    }
}

impl Drop for PerCpuFlag {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the guards have been dropped.
        unsafe { bindings::free_percpu(self.words.as_ptr().cast()) }
    }
}

/// Guard: the flag of this CPU is set.
pub struct PerCpuEntered<'a> {
    flag: &'a PerCpuFlag,
    _not_send: NotThreadSafe,
}

impl Drop for PerCpuEntered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: By the invariant of the flag. The CPU has not changed since the flag was set, as
        // interrupts are off.
        unsafe { clear_this_cpu(self.flag.words.as_ptr()) };
    }
}

/// Sets the lowest bit of this CPU's word in one instruction; returns false if it was set.
///
/// # Safety
///
/// `words` is the address of a live per-CPU word.
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
#[inline(always)]
unsafe fn set_this_cpu(words: *mut usize) -> bool {
    // SAFETY: By the rules of this function; the address is relative to the segment. Also a barrier
    // for the compiler.
    unsafe {
        core::arch::asm!("bts qword ptr gs:[{words}], 0", "jc {set}", words = in(reg) words,
            set = label { return false }, options(nostack))
    };
    true
}

/// Clears this CPU's word.
///
/// # Safety
///
/// As for [`set_this_cpu`].
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
#[inline(always)]
unsafe fn clear_this_cpu(words: *mut usize) {
    // SAFETY: By the rules of this function. Also a barrier for the compiler.
    unsafe {
        core::arch::asm!("mov qword ptr gs:[{words}], 0", words = in(reg) words,
            options(nostack, preserves_flags))
    };
}

/// Sets the lowest bit of this CPU's word; returns false if it was set.
///
/// # Safety
///
/// `words` is the address of a live per-CPU word; interrupts are off.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
#[inline(always)]
unsafe fn set_this_cpu(words: *mut usize) -> bool {
    // SAFETY: By the rules of this function. An NMI in between leaves the word as it was.
    unsafe {
        let word = bindings::ferro_this_cpu_ptr(words.cast()).cast::<usize>();
        let free = crate::sync::shared_word::load(word) == 0;
        if free {
            crate::sync::shared_word::store_release(word, 1);
        }
        free
    }
}

/// Clears this CPU's word.
///
/// # Safety
///
/// As for [`set_this_cpu`].
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
#[inline(always)]
unsafe fn clear_this_cpu(words: *mut usize) {
    // SAFETY: By the rules of this function.
    unsafe {
        crate::sync::shared_word::store_release(
            bindings::ferro_this_cpu_ptr(words.cast()).cast::<usize>(),
            0,
        )
    };
}

/// Adds 1 to the word of this CPU.
///
/// # Safety
///
/// `words` is the address of a live per-CPU word.
#[inline(always)]
pub unsafe fn inc_this_cpu(words: *mut usize) {
    #[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
    // SAFETY: By the rules of this function; the address is relative to the segment.
    unsafe {
        core::arch::asm!("inc qword ptr gs:[{words}]", words = in(reg) words, options(nostack))
    };
    #[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
    // SAFETY: By the rules of this function.
    unsafe {
        bindings::ferro_this_cpu_add(words.cast(), 1)
    };
}

/// Subtracts 1 from the word of this CPU.
///
/// # Safety
///
/// As for [`inc_this_cpu`].
#[inline(always)]
pub(crate) unsafe fn dec_this_cpu(words: *mut usize) {
    #[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
    // SAFETY: By the rules of this function; the address is relative to the segment.
    unsafe {
        core::arch::asm!("dec qword ptr gs:[{words}]", words = in(reg) words, options(nostack))
    };
    #[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
    // SAFETY: By the rules of this function.
    unsafe {
        bindings::ferro_this_cpu_add(words.cast(), usize::MAX)
    };
}
