// SPDX-License-Identifier: GPL-2.0

//! Values that sleep in their drop, and may be dropped in any context.
//!
//! A handler of a probe can drop the probe, where sleeping is not allowed and the handler itself is
//! still needed. Then a work item drops it; the module of the value is not freed before that.
//!
//! Contexts: drop: any, NMI included; creation: process.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::types::Opaque;

/// Type `struct ferro_deferred`, with that name because CFI compares function types and their
/// parameters by name. `deferred_drop.c` checks its size.
#[repr(C)]
struct ferro_deferred {
    _in_c: [usize; 2],
}

use ferro_deferred as Work;

extern "C" {
    /// `deferred_drop.h`
    fn ferro_may_sleep() -> bool;
    /// `deferred_drop.h`
    fn ferro_defer(work: *mut Work, run: unsafe extern "C" fn(*mut Work));
}

/// Returns true if the caller may sleep: not in an interrupt or a probe handler, not with
/// preemption or interrupts off, and not in a read-side section of RCU.
///
/// Context: any. Without `CONFIG_PREEMPT_COUNT` it does not detect that preemption is off.
pub fn may_sleep() -> bool {
    // SAFETY: Has no requirement.
    unsafe { ferro_may_sleep() }
}

// RUST-KERNEL: `kernel::workqueue` takes no work from NMIs and keeps no module for it; ours until
// it does.
/// A value in a box. It is dropped at once in a context that may sleep, and otherwise by a work
/// item.
///
/// # Invariants
///
/// The box is present until `drop()`.
pub struct Deferred<T: Send + 'static>(ManuallyDrop<Pin<KBox<Node<T>>>>);

#[pin_data]
#[repr(C)]
struct Node<T> {
    // First field, as `free()` expects.
    work: Opaque<Work>,
    #[pin]
    value: T,
}

// SAFETY: Only `drop()` uses `work`, and the value is `Send`.
unsafe impl<T: Send> Send for Node<T> {}
// SAFETY: Only `drop()` uses `work`, and the value is `Sync`.
unsafe impl<T: Sync> Sync for Node<T> {}

impl<T: Send + 'static> Deferred<T> {
    /// Makes the value. Errors: those of `init`, and no memory.
    pub fn new<E: From<AllocError>>(init: impl PinInit<T, E>) -> Result<Self, E> {
        let node = try_pin_init!(Node {
            work: Opaque::uninit(),
            value <- init,
        }? E);
        // INVARIANT: The box is present.
        KBox::try_pin_init(node, GFP_KERNEL).map(|node| Self(ManuallyDrop::new(node)))
    }
}

impl<T: Send + Unpin + 'static> Deferred<T> {
    /// Returns the value.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: The value may be moved, and `work` does not move.
        unsafe { &mut Pin::get_unchecked_mut((*self.0).as_mut()).value }
    }
}

impl<T: Send + 'static> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Send + 'static> Deferred<T> {
    /// Leaves the drop to a work item in any case, for a drop that would wait for the caller.
    /// Context: any.
    pub fn drop_later(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant the box is present; `this` is neither used nor dropped
        // afterwards.
        defer(unsafe { ManuallyDrop::take(&mut this.0) });
    }
}

impl<T: Send + 'static> Drop for Deferred<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the box is present; `self` is not used afterwards.
        let node = unsafe { ManuallyDrop::take(&mut self.0) };
        match may_sleep() {
            true => drop(node),
            false => defer(node),
        }
    }
}

fn defer<T: Send + 'static>(node: Pin<KBox<Node<T>>>) {
    // SAFETY: The node does not move until `free()` has it.
    let node = KBox::into_raw(unsafe { Pin::into_inner_unchecked(node) });
    // SAFETY: `work` is at the start of the node, which `free()` owns from this call, and was not
    // used before. The value is `Send`, so another thread may drop it.
    unsafe { ferro_defer(node.cast(), free::<T>) };
}

/// # Safety
///
/// `work` is at the start of a `Node<T>` from a box, which has no other users.
unsafe extern "C" fn free<T>(work: *mut Work) {
    // SAFETY: By the rules of this function.
    drop(unsafe { KBox::<Node<T>>::from_raw(work.cast()) });
}
