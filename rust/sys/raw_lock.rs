// SPDX-License-Identifier: GPL-2.0

//! Spin locks for code that already holds such locks: the scheduler, hard irqs.
//!
//! Contexts: any, with interrupts off; an NMI may only try.

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
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
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid, `name` and `key` live for ever.
            lock <- Opaque::ffi_init(|slot| unsafe {
                bindings::ferro_raw_spin_lock_init(slot, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }

    /// Takes the lock, except that an NMI does not wait for it.
    #[inline]
    pub fn lock_or_try<'a>(&'a self, irqs: &'a IrqsOff) -> Option<RawGuard<'a>> {
        // SAFETY: Reads the state of this CPU.
        if !unsafe { bindings::ferro_in_nmi() } {
            return Some(self.lock(irqs));
        }
        // SAFETY: The lock is initialised; `drop()` gives it back, if this has taken it.
        unsafe { bindings::ferro_raw_spin_trylock(self.lock.get()) }.then(|| RawGuard(self))
    }

    /// Takes the lock. Context: not NMI.
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
