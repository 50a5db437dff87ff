// SPDX-License-Identifier: GPL-2.0

//! Spin locks for code that already holds such locks: the scheduler, hard irqs.
//!
//! Contexts: any but NMI, with interrupts off.

use kernel::bindings;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::cpu::IrqsOff;

/// A `raw_spinlock_t` that is only taken with interrupts off.
#[pin_data]
pub struct RawSpinLock {
    #[pin]
    lock: Opaque<bindings::raw_spinlock_t>,
}

// SAFETY: A lock is made for this.
unsafe impl Send for RawSpinLock {}
// SAFETY: As above.
unsafe impl Sync for RawSpinLock {}

impl RawSpinLock {
    /// A free lock.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid.
            lock <- Opaque::ffi_init(|slot| unsafe { bindings::ferro_raw_spin_lock_init(slot) }),
        })
    }

    /// Takes the lock.
    #[inline]
    pub fn lock<'a>(&'a self, _irqs: &'a IrqsOff) -> RawGuard<'a> {
        // SAFETY: The lock is initialised; `drop()` gives it back, before interrupts come on.
        unsafe { bindings::ferro_raw_spin_lock(self.lock.get()) };
        RawGuard(self)
    }
}

/// Holds a [`RawSpinLock`].
pub struct RawGuard<'a>(&'a RawSpinLock);

impl Drop for RawGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The guard holds the lock.
        unsafe { bindings::ferro_raw_spin_unlock(self.0.lock.get()) };
    }
}
