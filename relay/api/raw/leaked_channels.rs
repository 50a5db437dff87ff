// SPDX-License-Identifier: GPL-2.0

//! Owner of the parts of clients' objects. Unloading this module drops the parts of leaked objects.
//!
//! Contexts: making in process context; dropping in any. Locks: the mutex of the list, which is not
//! held while parts are dropped.

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

/// Refuses a client whose module is being unloaded: this module would keep the objects of such a
/// client needlessly.
pub(crate) fn must_not_go(client: &'static Location<'static>) -> Result {
    // The location is data of the calling module.
    match is_going(core::ptr::from_ref(client).addr()) {
        true => Err(ESHUTDOWN),
        false => Ok(()),
    }
}

/// Handle of an object's parts, which this module owns: leaked parts are dropped when this module
/// is unloaded. The handle may be dropped in any context: in contexts that cannot sleep, a work
/// item drops the parts.
///
/// # Invariants
///
/// The pointer is valid until this is dropped: the parts are in the list until then, or this module
/// is unloaded, which it is only when no other module uses its code.
pub(crate) struct Kept<T: Parts + 'static> {
    parts: NonNull<T>,
    _listed: Deferred<Listed>,
}

/// The address of parts in the list. Removes and drops them when dropped.
struct Listed(NonNull<u8>);

// SAFETY: Only the address is used, and never dereferenced.
unsafe impl Send for Listed {}

impl Drop for Listed {
    fn drop(&mut self) {
        discard(self.0);
    }
}

// SAFETY: It owns a `T`, which another task may drop, as it is `Send`, and gives out references to
// it, which another task may have, as it is `Sync`.
unsafe impl<T: Parts> Send for Kept<T> {}
// SAFETY: A shared reference to this gives out shared references to the `T`, which is `Sync`.
unsafe impl<T: Parts> Sync for Kept<T> {}

/// Parts of a client's object.
pub(crate) trait Parts: Send + Sync {
    /// Returns the client's function that the object calls, if it has one.
    fn listening(&self) -> Option<&Arc<Listening>> {
        None
    }
}

/// Locks the list of clients' objects.
fn kept() -> StaticGuard<KVec<KBox<dyn Parts>>> {
    static KEPT: StaticMutex<KVec<KBox<dyn Parts>>> = static_mutex!(relay_api_mutex, KVec::new());
    KEPT.lock()
}

impl<T: Parts + 'static> Kept<T> {
    /// Adds parts to the list. Errors: -ENOMEM.
    pub(crate) fn new(parts: T) -> Result<Self> {
        let parts = KBox::new(parts, GFP_KERNEL)?;
        let pointer = NonNull::from(&*parts);
        let listed = Deferred::new(Ok::<_, Error>(Listed(pointer.cast())))?;
        // On failure, the list is unlocked before the parts are dropped: their drop may search the
        // list.
        let mut list = kept();
        list.reserve(1, GFP_KERNEL)?;
        list.push(parts as KBox<dyn Parts>, GFP_KERNEL)?;
        drop(list);
        // INVARIANT: It is in the list.
        Ok(Self {
            parts: pointer,
            _listed: listed,
        })
    }
}

impl<T: Parts + 'static> core::ops::Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant the parts are valid as long as this, and there is no
        // mutable reference to them: the list only drops them.
        unsafe { self.parts.as_ref() }
    }
}

impl<T: Parts + 'static> core::ops::DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant the parts are valid as long as this, which is borrowed
        // mutably, and the list only drops them.
        unsafe { self.parts.as_mut() }
    }
}

/// Drops the parts at this address.
fn discard(address: NonNull<u8>) {
    let mut kept = kept();
    let is_it = |parts: &KBox<dyn Parts>| (&raw const **parts).addr() == address.addr().get();
    let parts = kept
        .iter()
        .position(is_it)
        .and_then(|index| kept.remove(index).ok());
    if kept.is_empty() {
        // Statics are not dropped when the module is unloaded.
        *kept = KVec::new();
    }
    // With the list unlocked: an application's parts include a channel.
    drop(kept);
    drop(parts);
}

/// Returns a function of a module that an object still calls.
pub(super) fn listening_in(module: &Module) -> Option<Arc<Listening>> {
    let kept = kept();
    let mut listening = kept.iter().filter_map(|parts| parts.listening());
    listening.find(|listening| listening.is_in(module)).cloned()
}

/// Drops the objects that clients have leaked, as this module is unloaded.
pub(crate) fn leave() {
    // In this order, as older objects may own later ones.
    let next = || kept().first().map(|parts| NonNull::from(&**parts).cast());
    while let Some(address) = next() {
        pr_notice!("a channel or an application that nobody has closed goes\n");
        discard(address);
    }
}
