// SPDX-License-Identifier: GPL-2.0

//! A place for an object that readers of any context use while others exchange it.
//!
//! Contexts: reading anywhere, NMI included, with interrupts off; exchanging in process context.

use core::marker::PhantomData;
use core::ptr::NonNull;

use kernel::bindings;
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

// RUST-KERNEL: `kernel::sync::rcu` has sections, and no pointers that they protect; ours until it has.
/// An object with a reference count, or none.
///
/// # Invariants
///
/// The pointer is NULL or comes from `ARef::into_raw()`, and its count belongs to the slot.
pub struct RcuSlot<T: AlwaysRefCounted> {
    ptr: Atomic<*mut T>,
    _owns: PhantomData<ARef<T>>,
}

// SAFETY: A slot owns a count of a `T`, which may be given up by another task, as `T` is `Send` and `Sync`.
unsafe impl<T: AlwaysRefCounted + Send + Sync> Send for RcuSlot<T> {}
// SAFETY: The pointer is an atomic, and what a shared slot gives away are references and counts of a `T` that is `Send` and
// `Sync`.
unsafe impl<T: AlwaysRefCounted + Send + Sync> Sync for RcuSlot<T> {}

impl<T: AlwaysRefCounted> RcuSlot<T> {
    /// An empty slot.
    pub const fn new() -> Self {
        Self {
            // INVARIANT: NULL.
            ptr: Atomic::new(core::ptr::null_mut()),
            _owns: PhantomData,
        }
    }

    /// Calls `f` with the object. Not where RCU does not watch, as in the idle loop: nobody could
    /// wait for us there.
    #[inline]
    pub fn with<R>(&self, _irqs: &IrqsOff, f: impl FnOnce(&T) -> R) -> Option<R> {
        // A lock of the kernel that is dropped in `f` may turn interrupts on; this one counts.
        let _preempt = PreemptOff::new();
        // SAFETY: Has no requirement.
        if !unsafe { bindings::rcu_is_watching() } {
            return None;
        }
        // Acquire: pairs with the exchange in `replace()`.
        let object = NonNull::new(self.ptr.load(Acquire))?;
        // SAFETY: By the type invariant it is an object whose count the slot had. With preemption
        // off and RCU watching this is a read-side section, which `replace()` waits for before it
        // gives the count away.
        Some(f(unsafe { object.as_ref() }))
    }

    /// A count of the object.
    pub fn get(&self) -> Option<ARef<T>> {
        with_irqs_off(|irqs| self.with(irqs, |object| object.into()))
    }

    /// Exchanges the object. When this returns, no reader uses the old one any more.
    ///
    /// Context: process; sleeps. Where nothing may sleep, as within [`RcuSlot::with`], nothing is exchanged, and it returns `new`.
    pub fn replace(&self, new: Option<ARef<T>>) -> Option<ARef<T>> {
        // Interrupts are off in `with()`, which is seen also where preemption that is off is not.
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
