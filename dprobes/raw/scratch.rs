// SPDX-License-Identifier: GPL-2.0

//! Scratch memory of each CPU, for the one program that may run there.
//!
//! Contexts: making and freeing process; the rest any, NMI included.

use core::cell::UnsafeCell;
use core::sync::atomic::compiler_fence;
use core::sync::atomic::Ordering;

use ferro_core::rpn::Memory;
use ferro_sys::cpu::percpu::PerCpuPtr;
use ferro_sys::cpu::possible;
use ferro_sys::cpu::preempt::PreemptOff;
use kernel::alloc::flags::__GFP_ZERO;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

use crate::cpu_records::CpuRecords;

/// Scratch memory of a CPU.
struct Room {
    is_busy: UnsafeCell<bool>,
    /// True if `pending` has to be dropped before its next use.
    is_stale: UnsafeCell<bool>,
    memory: UnsafeCell<Memory>,
    pending: UnsafeCell<CpuRecords>,
}

/// Scratch memory of all CPUs.
///
/// # Invariants
///
/// Every possible CPU's slot points to one of `_rooms`. While `is_busy` is set, a context on that
/// CPU uses the rest of the room.
pub(crate) struct Scratch {
    slots: PerCpuPtr<Room>,
    _rooms: KVec<KVBox<Room>>,
}

// SAFETY: A room is used by its CPU only, and by one context at a time.
unsafe impl Send for Scratch {}
// SAFETY: As for `Send`: `enter()` sees to it.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Allocates the rooms. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let slots = PerCpuPtr::new()?;
        let mut rooms = KVec::new();
        for cpu in possible() {
            let room = KVBox::<Room>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
            // SAFETY: The memory is zeroed: flags that are not set, and numbers.
            let mut room = unsafe { room.assume_init() };
            // INVARIANT: The box, and so the room, stays where it is when it is moved into the
            // vector.
            slots.slot(cpu).store(&raw mut *room, Relaxed);
            rooms.push(room, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            _rooms: rooms,
        })
    }

    /// Drops this CPU's pending records, even while the room is in use: the next user finds none.
    #[cold]
    pub(crate) fn forget_pending(&self) {
        let preempt = PreemptOff::new();
        let room: *const Room = self.slots.this_cpu(&preempt);
        // SAFETY: By the type invariant it is a room that `self` keeps. Only this CPU uses the
        // flag, with single loads and stores.
        unsafe { (*room).is_stale.get().write_volatile(true) };
    }

    /// Takes this CPU's room, until the guard is dropped. Returns `None` if a program is running on
    /// this CPU already.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let preempt = PreemptOff::new();
        let room: *const Room = self.slots.this_cpu(&preempt);
        // SAFETY: By the type invariant it is a room that `self` keeps.
        let room = unsafe { &*room };
        let is_busy = room.is_busy.get();
        // SAFETY: Only this CPU uses the flag. An interrupt in between leaves it as it was.
        if unsafe { is_busy.read_volatile() } {
            return None;
        }
        // SAFETY: As above; preemption is off.
        unsafe { is_busy.write_volatile(true) };
        compiler_fence(Ordering::SeqCst);
        Some(Entered {
            room,
            _preempt: preempt,
        })
    }
}

/// Guard of this CPU's room.
pub(crate) struct Entered<'a> {
    room: &'a Room,
    _preempt: PreemptOff,
}

impl Entered<'_> {
    /// Returns the memory and the pending records of the room.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut Memory, &mut CpuRecords) {
        let is_stale = self.room.is_stale.get();
        // SAFETY: This guard has set the flag, and there is one guard at a time: the room has no
        // other user before it is dropped.
        let (memory, pending) =
            unsafe { (&mut *self.room.memory.get(), &mut *self.room.pending.get()) };
        // SAFETY: Only this CPU uses the flag, with single loads and stores; preemption is off.
        if unsafe { is_stale.read_volatile() } {
            // SAFETY: As above. A hit in between that sets it asks to drop the records that are
            // dropped here.
            unsafe { is_stale.write_volatile(false) };
            pending.clear();
        }
        (memory, pending)
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: This guard has set the flag, on this CPU, as preemption has been off since.
        unsafe { self.room.is_busy.get().write_volatile(false) };
    }
}
