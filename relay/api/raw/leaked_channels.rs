// SPDX-License-Identifier: GPL-2.0

//! What clients have open, which this module owns: with it goes what they have forgotten.
//!
//! Contexts: making in process context; dropping in any. Locks: that of the list, which is not held while parts are dropped.

use core::panic::Location;
use core::ptr::NonNull;

use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::sync::deferred_drop::Deferred;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::listener::Listening;

/// Refuses a client whose module is being unloaded: it has no more use for what this module would
/// keep.
pub(crate) fn must_not_go(client: &'static Location<'static>) -> Result {
    // The location is data of the module that calls.
    match is_going(core::ptr::from_ref(client).addr()) {
        true => Err(ESHUTDOWN),
        false => Ok(()),
    }
}

/// What a client's object consists of, which this module owns: when a client has forgotten the object, it goes with
/// this module. It may be dropped anywhere: where nothing may sleep, a work item drops the parts.
///
/// # Invariants
///
/// The pointer is valid until this is dropped: the parts are in the list until then, or this module goes, which it does
/// when no other module uses its code any more.
pub(crate) struct Kept<T: Parts + 'static> {
    parts: NonNull<T>,
    _listed: Deferred<Listed>,
}

/// The address of parts in the list, from which they are taken when this is dropped.
struct Listed(NonNull<u8>);

// SAFETY: Only the address is used, and never to get at what is there.
unsafe impl Send for Listed {}

impl Drop for Listed {
    fn drop(&mut self) {
        discard(self.0);
    }
}

// SAFETY: It owns a `T`, which another task may drop, as it is `Send`, and gives out references to it, which another task
// may have, as it is `Sync`.
unsafe impl<T: Parts> Send for Kept<T> {}
// SAFETY: A shared reference to this gives out shared references to the `T`, which is `Sync`.
unsafe impl<T: Parts> Sync for Kept<T> {}

/// The parts of a client's object.
pub(crate) trait Parts: Send + Sync {
    /// A function of the client's that the object calls, if it has one.
    fn listening(&self) -> Option<&Arc<Listening>> {
        None
    }
}

/// Waits for the list of what clients have open.
fn kept() -> StaticGuard<KVec<KBox<dyn Parts>>> {
    // SAFETY: `exports.c` defines the mutex with `DEFINE_MUTEX()`, in the same module, and nothing but this static uses it.
    static KEPT: StaticMutex<KVec<KBox<dyn Parts>>> =
        unsafe { StaticMutex::new(&raw mut bindings::relay_api_mutex, KVec::new()) };
    KEPT.lock()
}

impl<T: Parts + 'static> Kept<T> {
    /// Errors: -ENOMEM.
    pub(crate) fn new(parts: T) -> Result<Self> {
        let parts = KBox::new(parts, GFP_KERNEL)?;
        let pointer = NonNull::from(&*parts);
        let listed = Deferred::new(Ok::<_, Error>(Listed(pointer.cast())))?;
        // Where there is no memory, the list is given up before the parts are dropped, which may look for others in it.
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
        // SAFETY: By the type invariant the parts are there as long as this, and nobody has a mutable reference to them: the
        // list only drops them.
        unsafe { self.parts.as_ref() }
    }
}

impl<T: Parts + 'static> core::ops::DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant the parts are there as long as this, which is borrowed mutably, and the list only
        // drops them.
        unsafe { self.parts.as_mut() }
    }
}

/// Drops the parts that are at this address.
fn discard(address: NonNull<u8>) {
    let mut kept = kept();
    let is_it = |parts: &KBox<dyn Parts>| (&raw const **parts).addr() == address.addr().get();
    let parts = kept
        .iter()
        .position(is_it)
        .and_then(|index| kept.remove(index).ok());
    if kept.is_empty() {
        // Nobody frees a static when the module goes.
        *kept = KVec::new();
    }
    // With the lock given up: an application's parts have a channel.
    drop(kept);
    drop(parts);
}

/// A function of a module that an object still calls.
pub(super) fn listening_in(module: &Module) -> Option<Arc<Listening>> {
    let kept = kept();
    let mut listening = kept.iter().filter_map(|parts| parts.listening());
    listening.find(|listening| listening.is_in(module)).cloned()
}

/// This module goes: drops what clients have forgotten.
pub(crate) fn leave() {
    // What has been made first may have some of the later ones.
    let next = || kept().first().map(|parts| NonNull::from(&**parts).cast());
    while let Some(address) = next() {
        pr_notice!("a channel or an application that nobody has closed goes\n");
        discard(address);
    }
}
