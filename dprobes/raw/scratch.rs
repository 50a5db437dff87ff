// SPDX-License-Identifier: GPL-2.0

//! Scratch memory of each CPU, for the one program that may run there.
//!
//! Contexts: making and freeing process; the rest any, NMI included.

use core::cell::UnsafeCell;
use core::sync::atomic::compiler_fence;
use core::sync::atomic::Ordering;

use ferro_dprobes_core::Memory;
use ferro_sys::cpu::percpu::PerCpuPtr;
use ferro_sys::cpu::possible;
use ferro_sys::cpu::preempt::PreemptOff;
use kernel::alloc::flags::__GFP_ZERO;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// Records of a CPU that wait until the probed instruction is executed. Zeroed memory has none.
pub(crate) trait PendingRecords: Zeroable {
    /// Drops all records.
    fn clear(&mut self);
}

/// Scratch memory and pending records of a CPU.
struct CpuScratch<P> {
    is_busy: UnsafeCell<bool>,
    /// True if `pending` must be cleared before its next use.
    is_stale: UnsafeCell<bool>,
    memory: UnsafeCell<Memory>,
    pending: UnsafeCell<P>,
}

/// Scratch memory of all CPUs.
///
/// # Invariants
///
/// Every possible CPU's slot points to one of `_scratches`. While `is_busy` is set, one context on
/// that CPU uses the memory and the records.
pub(crate) struct Scratch<P: PendingRecords> {
    slots: PerCpuPtr<CpuScratch<P>>,
    _scratches: KVec<KVBox<CpuScratch<P>>>,
}

// SAFETY: Only its CPU uses a scratch memory, one context at a time.
unsafe impl<P: PendingRecords + Send> Send for Scratch<P> {}
// SAFETY: As for `Send`: `enter()` guarantees the one context.
unsafe impl<P: PendingRecords + Send> Sync for Scratch<P> {}

impl<P: PendingRecords> Scratch<P> {
    /// Allocates the scratch memory of each CPU. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let slots = PerCpuPtr::new()?;
        let mut scratches = KVec::new();
        for cpu in possible() {
            let scratch = KVBox::<CpuScratch<P>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
            // SAFETY: The memory is zeroed: `false`, the numbers of `Memory`, and a `Zeroable`.
            let mut scratch = unsafe { scratch.assume_init() };
            // INVARIANT: Moving the box into the vector does not move its content.
            slots.slot(cpu).store(&raw mut *scratch, Relaxed);
            scratches.push(scratch, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            _scratches: scratches,
        })
    }

    /// Drops this CPU's pending records before their next use. Allowed while they are in use.
    #[cold]
    pub(crate) fn invalidate_pending(&self) {
        let preempt = PreemptOff::new();
        let scratch: *const CpuScratch<P> = self.slots.this_cpu(&preempt);
        // SAFETY: By the type invariant the scratch memory lives as long as `self`. Only this CPU
        // uses the flag, with single loads and stores.
        unsafe { (*scratch).is_stale.get().write_volatile(true) };
    }

    /// Locks this CPU's scratch memory. Returns `None` if a program is running on this CPU already.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<ScratchGuard<'_, P>> {
        let preempt = PreemptOff::new();
        let scratch: *const CpuScratch<P> = self.slots.this_cpu(&preempt);
        // SAFETY: By the type invariant it lives as long as `self`.
        let scratch = unsafe { &*scratch };
        let is_busy = scratch.is_busy.get();
        // SAFETY: Only this CPU uses the flag, and an interrupting hit restores its value.
        if unsafe { is_busy.read_volatile() } {
            return None;
        }
        // SAFETY: As above; preemption is off.
        unsafe { is_busy.write_volatile(true) };
        compiler_fence(Ordering::SeqCst);
        Some(ScratchGuard {
            scratch,
            _preempt: preempt,
        })
    }
}

/// Guard of this CPU's scratch memory.
pub(crate) struct ScratchGuard<'a, P> {
    scratch: &'a CpuScratch<P>,
    _preempt: PreemptOff,
}

impl<P: PendingRecords> ScratchGuard<'_, P> {
    /// Returns the memory of the program, and the pending records.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut Memory, &mut P) {
        let is_stale = self.scratch.is_stale.get();
        // SAFETY: This guard has set `is_busy`, so no other guard for this CPU exists before this
        // one is dropped. The borrow of `self` makes the references exclusive.
        let (memory, pending) = unsafe {
            (
                &mut *self.scratch.memory.get(),
                &mut *self.scratch.pending.get(),
            )
        };
        // SAFETY: Only this CPU uses the flag, with single loads and stores; preemption is off.
        if unsafe { is_stale.read_volatile() } {
            // SAFETY: As above. A hit that sets the flag in between asks for dropping the same
            // records as this call.
            unsafe { is_stale.write_volatile(false) };
            pending.clear();
        }
        (memory, pending)
    }
}

impl<P> Drop for ScratchGuard<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: This guard has set the flag on this CPU, as preemption has been off since.
        unsafe { self.scratch.is_busy.get().write_volatile(false) };
    }
}
