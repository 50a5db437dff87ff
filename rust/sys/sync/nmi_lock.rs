// SPDX-License-Identifier: GPL-2.0

//! Spin locks for code that its own callers may trace. An NMI, or a probe on a function that it
//! calls, may enter it again at any point.
//!
//! The lock is one word, the number of the CPU that holds it, so at every moment a taken lock has a
//! known owner. It calls no function with a tracepoint. No CPU waits where waiting could last
//! forever:
//!
//! - a CPU that holds the lock does not get it again;
//! - a CPU that holds or awaits any such lock gets another one only if that is free: two CPUs that
//!   each hold the lock that the other wants would deadlock;
//! - an NMI does not wait.
//!
//! Contexts: any, NMI included, with interrupts off.

use crate::bindings;
use kernel::processor::cpu_relax;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::types::NotThreadSafe;

use crate::cpu::current_id;
use crate::cpu::IrqsOff;

/// Value of a free lock.
const FREE: u32 = u32::MAX;

/// A spin lock that knows its owner.
pub struct OwnerLock {
    /// Number of the CPU that holds the lock, or [`FREE`]. Released with release, taken with
    /// acquire.
    owner: Atomic<u32>,
}

impl OwnerLock {
    /// Makes a free lock.
    pub const fn new() -> Self {
        Self {
            owner: Atomic::new(FREE),
        }
    }

    /// Makes a lock that another CPU holds.
    #[cfg(CONFIG_FERRO_SYS_KUNIT_TEST)]
    pub(crate) const fn held_by(cpu: u32) -> Self {
        Self {
            owner: Atomic::new(cpu),
        }
    }

    /// Takes the lock. Returns `None` if it is taken and waiting for it might last forever.
    #[inline]
    pub fn enter<'a>(&'a self, irqs: &'a IrqsOff) -> Option<OwnerGuard<'a>> {
        let here = Here::new(irqs);
        let me = current_id();
        loop {
            match self.owner.cmpxchg(FREE, me, Acquire) {
                Ok(_) => {
                    return Some(OwnerGuard {
                        lock: self,
                        _here: here,
                    })
                }
                // SAFETY: Reads the state of this CPU.
                Err(owner) if owner == me || here.nested || unsafe { bindings::ferro_in_nmi() } => {
                    return None;
                }
                Err(_) => {
                    while self.owner.load(Relaxed) != FREE {
                        cpu_relax();
                    }
                }
            }
        }
    }
}

impl Default for OwnerLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Guard of an [`OwnerLock`].
pub struct OwnerGuard<'a> {
    lock: &'a OwnerLock,
    // Dropped after the lock has been released.
    _here: Here<'a>,
}

impl Drop for OwnerGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.owner.store(FREE, Release);
    }
}

/// Marks that this CPU holds a lock, or waits for one.
struct Here<'a> {
    /// True if the CPU was marked before.
    nested: bool,
    _irqs: &'a IrqsOff,
    _not_send: NotThreadSafe,
}

impl<'a> Here<'a> {
    #[inline]
    fn new(irqs: &'a IrqsOff) -> Self {
        Self {
            // SAFETY: `drop()` undoes it on this CPU, as the guard is not `Send`.
            nested: unsafe { bindings::ferro_owner_locks_enter() } != 0,
            _irqs: irqs,
            _not_send: NotThreadSafe,
        }
    }
}

impl Drop for Here<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Pairs with `new()`.
        unsafe { bindings::ferro_owner_locks_exit() };
    }
}
