// SPDX-License-Identifier: GPL-2.0

//! CPUs: their numbers, which exist, and sections that stay on one.
//!
//! Contexts: any, unless stated.

pub mod irq_work;
pub mod percpu;
pub mod preempt;
pub mod task;
pub mod time;

use kernel::bindings;
use kernel::types::NotThreadSafe;

// RUST-KERNEL: `kernel::cpu::CpuId` is any number below `nr_cpu_ids`; ours until that is the number of a possible CPU.
/// The number of a CPU that this machine can have.
///
/// # Invariants
///
/// The number is that of a possible CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuId(u32);

impl CpuId {
    /// CPU 0, which every machine has.
    // INVARIANT: CPU 0 boots.
    pub const ZERO: Self = Self(0);

    /// Checks a number that comes from outside.
    pub fn new(cpu: u32) -> Option<Self> {
        // SAFETY: Takes any number.
        // INVARIANT: Checked here.
        unsafe { bindings::ferro_cpu_possible(cpu) }.then_some(Self(cpu))
    }

    /// The number.
    #[inline]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// The number of the CPU that this runs on. The caller must stay on it.
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
        core::arch::asm!("mov {cpu:e}, gs:[rip + {number}]", cpu = out(reg) cpu, number = sym cpu_number,
            options(nostack, preserves_flags, readonly))
    };
    cpu
}

/// The number of the CPU that this runs on. The caller must stay on it.
#[cfg(not(all(CONFIG_X86_64, not(CONFIG_UML))))]
#[inline]
pub fn current_id() -> u32 {
    // SAFETY: Reads a per-CPU variable.
    unsafe { bindings::raw_smp_processor_id() }
}

/// Whether the kernel has not come to user space yet.
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

/// All CPUs that can ever come up.
pub fn possible() -> impl Iterator<Item = CpuId> {
    // SAFETY: Takes any number from -1.
    iterate(|last| unsafe { bindings::ferro_next_possible_cpu(last) })
}

/// All CPUs that are online when the iterator comes to them.
pub fn online() -> impl Iterator<Item = CpuId> {
    // SAFETY: Takes any number from -1.
    iterate(|last| unsafe { bindings::ferro_next_online_cpu(last) })
}

/// Whether interrupts are off on this CPU.
pub fn irqs_are_off() -> bool {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_irqs_disabled() }
}

// RUST-KERNEL: the guard of `kernel::interrupt` may be kept and calls C; ours until a closure gets such a proof, inlined.
/// Interrupts are off on this CPU, except for NMIs.
///
/// A proof that [`with_irqs_off`] lends. Nobody owns one, so sections end in the reverse order of their beginning, and
/// nothing that a section calls can end another around it.
pub struct IrqsOff(NotThreadSafe);

impl IrqsOff {
    /// A proof for code that is called with interrupts off.
    ///
    /// # Safety
    ///
    /// Interrupts are off, and stay so as long as the proof exists.
    #[inline(always)]
    pub(crate) unsafe fn assume() -> Self {
        Self(NotThreadSafe)
    }
}

/// Calls `f` with interrupts off on this CPU, which it does not leave.
#[inline(always)]
pub fn with_irqs_off<R>(f: impl FnOnce(&IrqsOff) -> R) -> R {
    let _section = IrqsSection::new();
    f(&IrqsOff(NotThreadSafe))
}

/// Turns interrupts off, and leaves them so. Where something keeps a record of it, or a hypervisor does it, they stay as they are.
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

/// A section with interrupts off, as a guard: only for this crate, which does not give it away.
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
    use core::arch::asm;
    use kernel::bindings;

    /// Whether it is that of x86, and nobody wants to know when it changes.
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
            // SAFETY: What this turns off, `restore()` turns on.
            return unsafe { bindings::ferro_local_irq_save() };
        }
        let flags;
        // SAFETY: What this turns off, `restore()` turns on. Also a barrier for the compiler.
        unsafe { asm!("pushfq", "pop {flags}", "cli", flags = out(reg) flags) };
        flags
    }

    /// Turns interrupts on if they were.
    #[inline(always)]
    pub(super) fn restore(flags: usize) {
        if !PLAIN {
            // SAFETY: `flags` comes from `save()` on this CPU.
            unsafe { bindings::ferro_local_irq_restore(flags) }
        } else if flags & IF != 0 {
            // SAFETY: They were on when `save()` was called, on this CPU. Also a barrier for the compiler.
            unsafe { asm!("sti", options(nostack)) };
        }
    }
}

/// Holds off CPU hotplug.
pub struct HotplugOff(NotThreadSafe);

impl HotplugOff {
    /// Context: process; sleeps. Not from a hotplug callback.
    pub fn new() -> Self {
        // SAFETY: Undone by `drop()` in the same task, as the guard is not `Send`.
        unsafe { bindings::ferro_cpus_read_lock() };
        Self(NotThreadSafe)
    }

    /// Calls `f` on `cpu` and waits for it.
    ///
    /// `f` runs with preemption off, in a thread that takes the CPU from whatever can be preempted:
    /// no section of that CPU that has preemption off is half done meanwhile. An offline CPU
    /// executes nothing, so `f` is then called here. Sleeps; needs no memory and no worker.
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

        // SAFETY: `run` gets what it expects, and the call returns after it.
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
