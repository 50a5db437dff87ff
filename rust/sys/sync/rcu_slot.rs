// SPDX-License-Identifier: GPL-2.0

//! Slots for an object that readers in any context use while writers exchange it.
//!
//! Contexts: read: any, NMI included, with interrupts off; exchange: process.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bindings;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::rcu::synchronize_rcu;

use crate::cpu::preempt::PreemptOff;
use crate::cpu::with_irqs_off;
use crate::cpu::IrqsOff;
use crate::sync::deferred_drop::may_sleep;

// RUST-KERNEL: `kernel::sync::rcu` has sections, and no pointers that they protect; ours until it
// has.
/// Slot for a reference-counted object, or none.
///
/// # Invariants
///
/// The pointer is NULL or from `ARef::into_raw()`, and the slot owns the reference.
pub struct RcuSlot<T: AlwaysRefCounted> {
    ptr: Atomic<*mut T>,
    _owns: PhantomData<ARef<T>>,
}

// SAFETY: A slot owns a reference to a `T`, which another task may drop, as `T` is `Send` and
// `Sync`.
unsafe impl<T: AlwaysRefCounted + Send + Sync> Send for RcuSlot<T> {}
// SAFETY: The pointer is an atomic, and a shared slot hands out references to a `T` that is `Send`
// and `Sync`.
unsafe impl<T: AlwaysRefCounted + Send + Sync> Sync for RcuSlot<T> {}

impl<T: AlwaysRefCounted> RcuSlot<T> {
    /// Makes an empty slot.
    pub const fn new() -> Self {
        Self {
            // INVARIANT: NULL.
            ptr: Atomic::new(core::ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    /// Calls `f` with the object. Returns `None` where RCU is not watching, as in the idle loop: a
    /// writer could not wait for this reader there.
    #[inline]
    pub fn with<R>(&self, _irqs: &IrqsOff, f: impl FnOnce(&T) -> R) -> Option<R> {
        // A kernel lock that is dropped in `f` may turn interrupts on; this section counts.
        let _preempt = PreemptOff::new();
        // SAFETY: Has no requirement.
        if !unsafe { bindings::rcu_is_watching() } {
            return None;
        }
        // Acquire: pairs with the exchange in `replace()`.
        let object = NonNull::new(self.ptr.load(Acquire))?;
        // SAFETY: By the type invariant this is an object whose reference the slot owned. With
        // preemption off and RCU watching this is a read-side section, and `replace()` waits for it
        // before it gives the reference away.
        Some(f(unsafe { object.as_ref() }))
    }

    /// Takes a reference to the object.
    pub fn get(&self) -> Option<ARef<T>> {
        with_irqs_off(|irqs| self.with(irqs, |object| object.into()))
    }

    /// Exchanges the object. No reader uses the old one when this returns.
    ///
    /// Context: process; sleeps. In a context that must not sleep, as within [`RcuSlot::with`], it
    /// exchanges nothing and returns `new`.
    pub fn replace(&self, new: Option<ARef<T>>) -> Option<ARef<T>> {
        // In `with()` interrupts are off, which is detected even if preemption that is off is not.
        if !may_sleep() {
            return new;
        }
        let new = new.map_or(core::ptr::null_mut(), |new| ARef::into_raw(new).as_ptr());
        // INVARIANT: NULL or from `ARef::into_raw()`.
        let old = NonNull::new(self.ptr.xchg(new, Full))?;
        synchronize_rcu();
        // SAFETY: By the type invariant; the slot no longer has the pointer.
        Some(unsafe { ARef::from_raw(old) })
    }
}

impl<T: AlwaysRefCounted> Default for RcuSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: AlwaysRefCounted> Drop for RcuSlot<T> {
    fn drop(&mut self) {
        drop(self.replace(None));
    }
}
