// SPDX-License-Identifier: GPL-2.0

//! CPUs: numbers, possible and online CPUs, and sections that stay on one CPU.
//!
//! Contexts: any, unless stated.

pub mod irq_work;
pub mod percpu;
pub mod preempt;
pub mod task;
pub mod time;
pub mod words;

use crate::bindings;
use kernel::types::NotThreadSafe;

// RUST-KERNEL: `kernel::cpu::CpuId` is any number below `nr_cpu_ids`; ours until that is the number
// of a possible CPU.
/// Number of a possible CPU of this machine.
///
/// # Invariants
///
/// The number belongs to a possible CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuId(u32);

impl CpuId {
    /// CPU 0, which every machine has.
    // INVARIANT: CPU 0 boots.
    pub const ZERO: Self = Self(0);

    /// Checks a number from outside of the kernel's Rust code.
    pub fn new(cpu: u32) -> Option<Self> {
        // SAFETY: Takes any number.
        // INVARIANT: Checked here.
        unsafe { bindings::ferro_cpu_possible(cpu) }.then_some(Self(cpu))
    }

    /// Returns the number.
    #[inline]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Returns the number of the current CPU. The caller must stay on it.
#[cfg(all(CONFIG_X86_64, not(CONFIG_UML)))]
#[inline(always)]
pub fn current_id() -> u32 {
    extern "C" {
        /// `asm/smp.h`.
        static cpu_number: u32;
    }

    let cpu: u32;
    // SAFETY: One load of a per-CPU variable that does not change once the CPU is up.
    unsafe {
        core::arch::asm!("mov {cpu:e}, gs:[rip + {number}]",
            cpu = out(reg) cpu, number = sym cpu_number,
            options(nostack, preserves_flags, readonly))
    };
    cpu
}

/// Returns the number of the current CPU. The caller must stay on it.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
#[inline]
pub fn current_id() -> u32 {
    // SAFETY: Reads a per-CPU variable.
    unsafe { bindings::raw_smp_processor_id() }
}

/// Returns true until the kernel has started user space.
pub fn booting() -> bool {
    // SAFETY: Reads a variable.
    unsafe { bindings::ferro_booting() }
}

fn iterate(next: impl Fn(i32) -> u32) -> impl Iterator<Item = CpuId> {
    let mut last = -1;
    core::iter::from_fn(move || {
        let cpu = CpuId::new(next(last))?;
        last = i32::try_from(cpu.0).ok()?;
        Some(cpu)
    })
}

/// Returns an iterator over all possible CPUs.
pub fn possible() -> impl Iterator<Item = CpuId> {
    // SAFETY: Takes any number from -1.
    iterate(|last| unsafe { bindings::ferro_next_possible_cpu(last) })
}

/// Returns an iterator over the CPUs that are online when it reaches them.
pub fn online() -> impl Iterator<Item = CpuId> {
    // SAFETY: Takes any number from -1.
    iterate(|last| unsafe { bindings::ferro_next_online_cpu(last) })
}

/// Returns true if interrupts are off on this CPU.
pub fn irqs_are_off() -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_irqs_disabled() }
}

// RUST-KERNEL: the guard of `kernel::interrupt` may be kept and calls C; ours until a closure gets
// such a proof, inlined.
/// Proof that interrupts are off on this CPU, except for NMIs.
///
/// [`with_irqs_off`] lends the proof, so no code owns one. Sections end in the reverse order of
/// their beginning, and a callee cannot end the section of its caller.
pub struct IrqsOff(NotThreadSafe);

impl IrqsOff {
    /// Makes a proof for code called with interrupts off.
    ///
    /// # Safety
    ///
    /// Interrupts are off, and stay so as long as the proof exists.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        Self(NotThreadSafe)
    }
}

/// Calls `f` with interrupts off on this CPU, which `f` does not leave.
#[inline(always)]
pub fn with_irqs_off<R>(f: impl FnOnce(&IrqsOff) -> R) -> R {
    let _section = IrqsSection::new();
    f(&IrqsOff(NotThreadSafe))
}

/// Turns interrupts off, and leaves them off. Does nothing if irq tracing or a hypervisor handles
/// the flag.
///
/// # Safety
///
/// The caller returns to code that puts RFLAGS back, before it can sleep.
#[inline(always)]
pub unsafe fn leave_irqs_off() {
    if irqs::PLAIN {
        irqs::save();
    }
}

/// A section with interrupts off, as a guard. Only for this crate, which does not pass it on.
pub(crate) struct IrqsSection {
    flags: usize,
    _not_send: NotThreadSafe,
}

impl IrqsSection {
    /// Turns interrupts off on this CPU.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            // Undone by `drop()` on the same CPU, as the guard is not `Send`.
            flags: irqs::save(),
            _not_send: NotThreadSafe,
        }
    }
}

impl Drop for IrqsSection {
    #[inline(always)]
    fn drop(&mut self) {
        irqs::restore(self.flags);
    }
}

/// The interrupt flag of this CPU.
mod irqs {
    use crate::bindings;
    use core::arch::asm;

    /// True if the flag is that of x86, and no code traces its changes.
    pub(super) const PLAIN: bool = cfg!(all(
        CONFIG_X86_64,
        not(CONFIG_UML),
        not(CONFIG_PARAVIRT_XXL),
        not(CONFIG_TRACE_IRQFLAGS),
        not(CONFIG_DEBUG_IRQFLAGS)
    ));

    /// RFLAGS.IF.
    const IF: usize = 1 << 9;

    /// Returns the flags and turns interrupts off.
    #[inline(always)]
    pub(super) fn save() -> usize {
        if !PLAIN {
            // SAFETY: `restore()` turns interrupts on again.
            return unsafe { bindings::ferro_local_irq_save() };
        }
        let flags;
        // SAFETY: `restore()` turns interrupts on again. Also a barrier for the compiler.
        unsafe { asm!("pushfq", "pop {flags}", "cli", flags = out(reg) flags) };
        flags
    }

    /// Turns interrupts on if they were on.
    #[inline(always)]
    pub(super) fn restore(flags: usize) {
        if !PLAIN {
            // SAFETY: `flags` is from `save()` on this CPU.
            unsafe { bindings::ferro_local_irq_restore(flags) }
        } else if flags & IF != 0 {
            // SAFETY: They were on when `save()` was called, on this CPU. Also a barrier for the
            // compiler.
            unsafe { asm!("sti", options(nostack)) };
        }
    }
}

/// Holds off CPU hotplug.
pub struct HotplugOff(NotThreadSafe);

impl HotplugOff {
    /// Takes the lock. Context: process; sleeps. Not from a hotplug callback.
    pub fn new() -> Self {
        // SAFETY: Undone by `drop()` in the same task, as the guard is not `Send`.
        unsafe { bindings::ferro_cpus_read_lock() };
        Self(NotThreadSafe)
    }

    /// Calls `f` on `cpu` and waits for it.
    ///
    /// `f` runs with preemption off, in a thread that preempts all preemptible code, so no section
    /// with preemption off on that CPU is half done. An offline CPU executes nothing, so `f` is
    /// then called here. Sleeps; needs no memory and no worker.
    pub fn call_on(&self, cpu: CpuId, f: &(impl Fn() + Sync)) {
        /// # Safety
        ///
        /// `arg` points to a live `F`.
        unsafe extern "C" fn run<F: Fn()>(arg: *mut kernel::ffi::c_void) -> kernel::ffi::c_int {
            // SAFETY: `call_on()` passes a reference to a live `F` and waits.
            (unsafe { &*arg.cast::<F>() })();
            0
        }
        fn run_for<F: Fn()>(
            _: &F,
        ) -> unsafe extern "C" fn(*mut kernel::ffi::c_void) -> kernel::ffi::c_int {
            run::<F>
        }

        // SAFETY: `run` gets a pointer to a live `F`, and the call returns after it.
        let result = unsafe {
            bindings::ferro_stop_one_cpu(
                cpu.get(),
                Some(run_for(f)),
                core::ptr::from_ref(f).cast_mut().cast(),
            )
        };
        if result != 0 {
            f();
        }
    }
}

impl Default for HotplugOff {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for HotplugOff {
    fn drop(&mut self) {
        // SAFETY: Pairs with `new()`.
        unsafe { bindings::ferro_cpus_read_unlock() }
    }
}
