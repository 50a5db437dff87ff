// SPDX-License-Identifier: GPL-2.0

//! Values whose drop sleeps, and that may be dropped anywhere.
//!
//! A handler of a probe can drop the probe, where nothing may sleep and the handler itself is still needed. Then a
//! work item drops it; the module that the value belongs to does not go before that.
//!
//! Contexts: dropping any, NMI included; making process.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::types::Opaque;

/// `struct ferro_deferred`, by that name: CFI compares the types of functions, and those of what they take, by their names.
/// `deferred_drop.c` checks its size.
#[repr(C)]
pub(super) struct ferro_deferred {
    _in_c: [usize; 2],
}

pub(super) use ferro_deferred as Work;

extern "C" {
    /// `deferred_drop.h`
    fn ferro_may_sleep() -> bool;
    /// `deferred_drop.h`
    pub(super) fn ferro_defer(work: *mut Work, run: unsafe extern "C" fn(*mut Work));
    /// `deferred_drop.h`
    pub(super) fn ferro_wait_deferred();
}

/// Whether the caller may sleep: not in an interrupt or a handler of a probe, not with preemption or interrupts off,
/// and not in a read-side section of RCU.
///
/// Context: any. Without `CONFIG_PREEMPT_COUNT` it does not see that preemption is off.
pub fn may_sleep() -> bool {
    // SAFETY: Has no requirement.
    unsafe { ferro_may_sleep() }
}

// RUST-KERNEL: `kernel::workqueue` takes no work from NMIs and keeps no module for it; ours until it does.
/// A value in a box, which is dropped at once where that may sleep, and else by a work item.
///
/// # Invariants
///
/// The box is there until `drop()`.
pub struct Deferred<T: Send + 'static>(ManuallyDrop<Pin<KBox<Node<T>>>>);

#[pin_data]
#[repr(C)]
struct Node<T> {
    // At the start, where `free()` expects it.
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
        // INVARIANT: Here it is.
        KBox::try_pin_init(node, GFP_KERNEL).map(|node| Self(ManuallyDrop::new(node)))
    }
}

impl<T: Send + Unpin + 'static> Deferred<T> {
    /// The value.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: The value may be moved, and `work` stays where it is.
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
    /// Has the value dropped by a work item in any case, as where the drop would wait for the
    /// caller. Context: any.
    pub fn drop_later(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant it is there; `this` is neither used nor dropped after this.
        defer(unsafe { ManuallyDrop::take(&mut this.0) });
    }
}

impl<T: Send + 'static> Drop for Deferred<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is there; nobody uses `self` after this.
        let node = unsafe { ManuallyDrop::take(&mut self.0) };
        match may_sleep() {
            true => drop(node),
            false => defer(node),
        }
    }
}

fn defer<T: Send + 'static>(node: Pin<KBox<Node<T>>>) {
    // SAFETY: It stays where it is until `free()` has it.
    let node = KBox::into_raw(unsafe { Pin::into_inner_unchecked(node) });
    // SAFETY: `work` is at the start of the node, which belongs to `free()` from here on, and
    // nobody has used it before. The value is `Send`, so that another thread may drop it.
    unsafe { ferro_defer(node.cast(), free::<T>) };
}

/// # Safety
///
/// `work` is at the start of a `Node<T>`, which nobody else uses any more, and which came from a box.
unsafe extern "C" fn free<T>(work: *mut Work) {
    // SAFETY: By the rules of this function.
    drop(unsafe { KBox::<Node<T>>::from_raw(work.cast()) });
}
