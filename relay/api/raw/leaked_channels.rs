// SPDX-License-Identifier: GPL-2.0

//! List of clients' channels and applications. Unloading this module drops the leaked ones.
//!
//! Contexts: making in process context; dropping in any. Locks: the mutex of the list, which is not
//! held while an object is dropped.

use core::panic::Location;
use core::ptr::NonNull;

use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::static_mutex;
use ferro_sys::sync::deferred_drop::Deferred;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::listener::Listening;

/// Returns an error if the client's module is being unloaded: this module would otherwise keep the
/// client's object until it is unloaded itself.
pub(crate) fn check_not_unloading(client: &'static Location<'static>) -> Result {
    // The location is data of the calling module.
    match is_going(core::ptr::from_ref(client).addr()) {
        true => Err(ESHUTDOWN),
        false => Ok(()),
    }
}

/// A client's handle of its object. This module owns the object, and drops it when unloaded if the
/// client has leaked the handle. The handle may be dropped in any context: in contexts that cannot
/// sleep, a work item drops the object.
///
/// # Invariants
///
/// The pointer is valid until this handle is dropped. The object is in the list until then, or
/// until this module is unloaded, at which time no other module uses its code.
pub(crate) struct Tracked<T: ClientObject + 'static> {
    object: NonNull<T>,
    _untrack: Deferred<Untrack>,
}

/// The address of an object in the list. Removes and drops the object when dropped.
struct Untrack(NonNull<u8>);

// SAFETY: Only the address is used, and never dereferenced.
unsafe impl Send for Untrack {}

impl Drop for Untrack {
    fn drop(&mut self) {
        discard(self.0);
    }
}

// SAFETY: It owns a `T`, which another task may drop, as it is `Send`, and gives out references to
// it, which another task may have, as it is `Sync`.
unsafe impl<T: ClientObject> Send for Tracked<T> {}
// SAFETY: A shared reference to this gives out shared references to the `T`, which is `Sync`.
unsafe impl<T: ClientObject> Sync for Tracked<T> {}

/// A client's channel or application.
pub(crate) trait ClientObject: Send + Sync {
    /// Returns the client's function that the object calls, if it has one.
    fn listening(&self) -> Option<&Arc<Listening>> {
        None
    }
}

/// Locks the list of clients' objects.
fn tracked() -> StaticGuard<KVec<KBox<dyn ClientObject>>> {
    static TRACKED: StaticMutex<KVec<KBox<dyn ClientObject>>> =
        static_mutex!(relay_api_mutex, KVec::new());
    TRACKED.lock()
}

impl<T: ClientObject + 'static> Tracked<T> {
    /// Adds an object to the list. Errors: -ENOMEM.
    pub(crate) fn new(object: T) -> Result<Self> {
        let object = KBox::new(object, GFP_KERNEL)?;
        let pointer = NonNull::from(&*object);
        let untrack = Deferred::new(Ok::<_, Error>(Untrack(pointer.cast())))?;
        // On failure, the list is unlocked before the object is dropped: its drop may search the
        // list.
        let mut list = tracked();
        list.reserve(1, GFP_KERNEL)?;
        list.push(object as KBox<dyn ClientObject>, GFP_KERNEL)?;
        drop(list);
        // INVARIANT: It is in the list.
        Ok(Self {
            object: pointer,
            _untrack: untrack,
        })
    }
}

impl<T: ClientObject + 'static> core::ops::Deref for Tracked<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant the object is valid as long as this, and there is no
        // mutable reference to it: the list only drops it.
        unsafe { self.object.as_ref() }
    }
}

impl<T: ClientObject + 'static> core::ops::DerefMut for Tracked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant the object is valid as long as this, which is borrowed
        // mutably, and the list only drops it.
        unsafe { self.object.as_mut() }
    }
}

/// Drops the object at this address.
fn discard(address: NonNull<u8>) {
    let mut tracked = tracked();
    let is_it =
        |object: &KBox<dyn ClientObject>| (&raw const **object).addr() == address.addr().get();
    let object = tracked
        .iter()
        .position(is_it)
        .and_then(|index| tracked.remove(index).ok());
    if tracked.is_empty() {
        // Statics are not dropped when the module is unloaded.
        *tracked = KVec::new();
    }
    // With the list unlocked: an application includes a channel.
    drop(tracked);
    drop(object);
}

/// Returns a function of a module that an object still calls.
pub(super) fn listening_in(module: &Module) -> Option<Arc<Listening>> {
    let tracked = tracked();
    let mut listening = tracked.iter().filter_map(|object| object.listening());
    listening.find(|listening| listening.is_in(module)).cloned()
}

/// Drops the objects that clients have leaked, as this module is unloaded.
pub(crate) fn drop_all() {
    // In this order, as older objects may own later ones.
    let next = || {
        tracked()
            .first()
            .map(|object| NonNull::from(&**object).cast())
    };
    while let Some(address) = next() {
        pr_notice!("closing a channel or an application that a client has leaked\n");
        discard(address);
    }
}
