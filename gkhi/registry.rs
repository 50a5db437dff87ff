// SPDX-License-Identifier: GPL-2.0

//! Registry of hooks and exits.
//!
//! Contexts: process; sleeps. No operation starts in an exit, except in exits of `Task` hooks that
//! fire where sleeping is allowed.
//!
//! Locks, outermost first: the lock of module notifiers, during an unload; the files' lock, held
//! while files are created and removed; the registry's lock; then the locks of debugfs directories,
//! static keys and CPU hotplug.
//!
//! A wait for exits holds none of these locks, except the first one during an unload. Removing a
//! file does not hold the registry's lock, because a user of the open file may be waiting for that
//! lock. The object of an exit is dropped without a lock, as its drop may wait for any lock. It is
//! dropped by the task that drops the exit, by the unload of the exit's module, or by a work item
//! of its own.
#![deny(unsafe_code)]

use ferro_gkhi_core::State;
use ferro_gkhi_core::Table;
use ferro_sys::bindings;
use ferro_sys::hook::BusyList;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;

use crate::debugfs_nodes::Root;
use crate::entries::Handle;
use crate::entries::HookEntry;
use crate::entries::RetiredExit;
use crate::kvec_lists::Exit;
use crate::kvec_lists::Hook;
use crate::kvec_lists::Hooks;

/// Maximum number of bytes of a name.
const NAME_MAX: usize = bindings::GKH_NAME_MAX as usize;

/// The registry. C defines the mutex, because hooks are registered before Rust can initialise one.
static REGISTRY: StaticMutex<Option<Registry>> = static_mutex!(ferro_hook_lock, None);

/// Contents of the registry.
pub(crate) struct Registry {
    pub(crate) table: Hooks,
    pub(crate) root: Option<Root>,
    pub(crate) retired: KVec<RetiredExit>,
    pub(crate) busy: BusyList,
    /// Number of retire lists with a counted chain and a task that waits for them.
    pub(crate) waited_lists: usize,
}

impl Registry {
    pub(crate) fn hook(&self, wanted: impl Fn(&HookEntry) -> bool) -> Option<&Hook> {
        self.table.hooks().iter().find(|h| wanted(&h.body))
    }

    /// Records exits that have disarmed themselves.
    pub(crate) fn note_self_disarmed(&mut self) {
        loop {
            let is_self_disarmed =
                |e: &&Exit| e.state() == State::Armed && e.body.node.is_self_disarmed();
            let Some(id) = self.table.exits().find(is_self_disarmed).map(|e| e.id) else {
                return;
            };
            self.table.self_disarm(id);
        }
    }
}

/// Locks the registry for reading; `None` before the first hook.
pub(crate) fn lock() -> StaticGuard<Option<Registry>> {
    REGISTRY.lock()
}

/// Calls `f` with the registry locked; creates the registry at the first call.
pub(crate) fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    f(lock().get_or_insert_with(|| Registry {
        table: Table::new(),
        root: None,
        retired: KVec::new(),
        busy: BusyList::new(),
        waited_lists: 0,
    }))
}

/// Frees the registry, without its lock: the removal waits for operations of its files.
pub(crate) fn free() {
    let registry = lock().take();
    drop(registry);
}

/// Returns true if an exit is armed.
pub(crate) fn is_armed(handle: Handle) -> bool {
    with(|registry| {
        let mut exits = registry.table.exits();
        exits.any(|e| {
            e.id == handle.id
                && e.body.parts.record_address() == handle.record
                && e.state() == State::Armed
                && !e.body.node.is_self_disarmed()
        })
    })
}

/// Returns the number of registered exits.
pub(crate) fn count() -> usize {
    with(|registry| registry.table.len())
}

/// Returns true if `name` is valid for a hook or an exit.
pub(crate) fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    let ok = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    (1..=NAME_MAX).contains(&bytes.len()) && bytes.iter().all(ok) && !bytes.starts_with(b".")
}

/// Returns true if debugfs `gkhi/` has a file of this name, so that no hook's directory can have
/// it.
pub(crate) fn is_reserved(name: &CStr) -> bool {
    [c"hooks", c"arm", c"disarm"].contains(&name)
}
