// SPDX-License-Identifier: GPL-2.0

//! List of registered probes, on mainline's engine. When a module is unloaded, that engine does not
//! unregister the probes that the module has leaked (`mem::forget()`); this list does. Our engine
//! does it itself.
//!
//! Contexts: process; sleeps. Locks: the mutex of the list, held while probes are registered, and
//! while those of a module are unregistered.

use ferro_sys::hook::module_notifier::ModuleGoing;
use ferro_sys::hook::module_notifier::ModuleNotifier;
use ferro_sys::hook::Module;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

/// True if mainline's engine is in use.
pub(crate) const IS_MAINLINE: bool = cfg!(not(CONFIG_KPROBES_ENGINE_RUST));

/// A registered probe.
struct Listed {
    /// Address of its structure of the C interface.
    place: usize,
    /// Functions that the engine calls.
    handlers: [usize; 2],
    /// Unregisters it.
    unregister: unsafe fn(usize),
}

fn listed() -> StaticGuard<KVVec<Listed>> {
    static LISTED: StaticMutex<KVVec<Listed>> = static_mutex!(kprobe_api_mutex, KVVec::new());
    LISTED.lock()
}

/// Functions for probes of one type.
pub(super) struct Functions<T> {
    /// Functions that the engine calls.
    pub(super) handlers: [usize; 2],
    /// Registers the given number of probes, or none.
    pub(super) register: unsafe fn(*mut *mut T, c_int) -> c_int,
    /// Unregisters the probe at an address.
    pub(super) unregister: unsafe fn(usize),
}

/// Registers all of these probes, or none. Lists them if the engine is mainline's. Errors: as for
/// the engine; no memory, -E2BIG.
///
/// # Safety
///
/// The pointers are to structures that are not registered, and the functions are for them.
pub(super) unsafe fn register<T>(places: &mut [*mut T], functions: &Functions<T>) -> Result {
    let count = c_int::try_from(places.len()).map_err(|_| E2BIG)?;
    let register = |places: &mut [*mut T]| {
        // SAFETY: By the rules of this function.
        to_result(unsafe { (functions.register)(places.as_mut_ptr(), count) })
    };
    if !IS_MAINLINE {
        return register(places);
    }
    let mut listed = listed();
    listed.reserve(places.len(), GFP_KERNEL)?;
    register(places)?;
    for place in places {
        let one = Listed {
            place: place.expose_provenance(),
            handlers: functions.handlers,
            unregister: functions.unregister,
        };
        // Cannot fail: reserved above.
        let _ = listed.push(one, GFP_KERNEL);
    }
    Ok(())
}

/// Takes probes off the list. Retains in `places` the probes that were listed: the caller must
/// unregister them. The others have been unregistered with their module.
pub(super) fn delist<T>(places: &mut KVVec<*mut T>) {
    if !IS_MAINLINE {
        return;
    }
    places.sort_unstable();
    let mut listed = listed();
    listed.sort_unstable_by_key(|one| one.place);
    let is_listed = |place: usize| listed.binary_search_by_key(&place, |one| one.place).is_ok();
    places.retain(|place| is_listed(place.addr()));
    listed.retain(|one| {
        places
            .binary_search_by_key(&one.place, |place| place.addr())
            .is_err()
    });
}

/// Takes a probe off the list. Returns true if the caller must unregister it.
pub(super) fn delist_one<T>(place: *mut T) -> bool {
    if !IS_MAINLINE {
        return true;
    }
    let mut listed = listed();
    let index = listed.iter().position(|one| one.place == place.addr());
    index.is_some_and(|index| listed.remove(index).is_ok())
}

/// The probes of modules.
pub(crate) struct Probes;

impl ModuleGoing for Probes {
    fn going(module: &Module) {
        let mut listed = listed();
        let is_its = |one: &Listed| one.handlers.iter().any(|code| module.contains(*code));
        while let Some(index) = listed.iter().position(is_its) {
            let Ok(one) = listed.remove(index) else {
                return;
            };
            pr_notice!("an unloaded module has left a probe\n");
            // SAFETY: A listed probe is registered: its owner takes it off the list before it
            // unregisters it. The memory of a leaked probe stays; its type's code is in the module.
            unsafe { (one.unregister)(one.place) };
        }
    }
}

/// The list, for the state of this module.
pub(crate) struct List {
    _notifier: Option<ModuleNotifier<Probes>>,
}

impl List {
    /// Registers a module notifier, where the list is in use. Errors: no memory.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The state of this module has the result, and is dropped before it is unloaded.
        let notifier = || unsafe { ModuleNotifier::new() };
        Ok(Self {
            _notifier: IS_MAINLINE.then(notifier).transpose()?,
        })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // All clients have been unloaded. Statics are not dropped when this module is.
        *listed() = KVVec::new();
    }
}
