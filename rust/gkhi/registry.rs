// SPDX-License-Identifier: GPL-2.0

//! The registry: which hooks and exits there are.
//!
//! Contexts: process; sleeps. Locks, outermost first: that of module notifiers, while a module goes; the files'
//! lock, held while files appear and vanish; the registry's; then those of debugfs's directories, of static
//! keys and of CPU hotplug. Operations come from no exit, but for those of `Task` hooks that fire where one may sleep.
//! Waiting for exits holds none but the first, and removing a file does not hold the registry's, which whoever has the
//! file open may be waiting for. What an exit owns is dropped without a lock: by whoever dropped the exit, by the unload of
//! its module, or by a work item of its own, and by nobody else, who may hold what it needs.
#![deny(unsafe_code)]

use ferro_core::hooks::State;
use ferro_core::hooks::Table;
use ferro_sys::hook::Unquiet;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;

use crate::debugfs_nodes::Root;
use crate::handle::Handle;
use crate::hook_entry::HookEntry;
use crate::kvec_lists::Exit;
use crate::kvec_lists::Hook;
use crate::kvec_lists::Hooks;
use crate::raw::locks::registry_mutex;
use crate::retired::Leaving;

/// It is usable before any initcall.
static REGISTRY: StaticMutex<Option<Registry>> = registry_mutex(None);

/// All there is.
pub(crate) struct Registry {
    pub(crate) table: Hooks,
    pub(crate) root: Option<Root>,
    pub(crate) leaving: KVec<Leaving>,
    pub(crate) unquiet: Unquiet,
    /// How many graveyards with a counted chain are being waited for.
    pub(crate) waiting: usize,
}

impl Registry {
    pub(crate) fn hook(&self, wanted: impl Fn(&HookEntry) -> bool) -> Option<&Hook> {
        self.table.hooks().iter().find(|h| wanted(&h.body))
    }

    /// Takes note of exits that have disarmed themselves.
    pub(crate) fn note_spent(&mut self) {
        loop {
            let is_spent = |e: &&Exit| e.state() == State::Armed && e.body.node.is_spent();
            let Some(id) = self.table.exits().find(is_spent).map(|e| e.id) else {
                return;
            };
            self.table.spend(id);
        }
    }
}

/// The registry, to look at it; none before the first hook.
pub(crate) fn lock() -> StaticGuard<Option<Registry>> {
    REGISTRY.lock()
}

/// The registry, made if this is the first time.
pub(crate) fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    f(lock().get_or_insert_with(|| Registry {
        table: Table::new(),
        root: None,
        leaving: KVec::new(),
        unquiet: Unquiet::new(),
        waiting: 0,
    }))
}

/// Whether an exit is armed.
pub(crate) fn is_armed(handle: Handle) -> bool {
    with(|registry| {
        let mut exits = registry.table.exits();
        exits.any(|e| {
            e.id == handle.id
                && e.body.parts.record_address() == handle.record
                && e.state() == State::Armed
                && !e.body.node.is_spent()
        })
    })
}

/// How many exits are registered.
pub(crate) fn count() -> usize {
    with(|registry| registry.table.len())
}
