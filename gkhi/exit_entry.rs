// SPDX-License-Identifier: GPL-2.0

//! Registry entry of an exit.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::hook::Condition;
use ferro_sys::hook::Counters;
use ferro_sys::hook::Exit;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Module;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Parts;
use ferro_sys::hook::Readers;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::debugfs_nodes::ExitFile;
use crate::handle::Handle;

/// Registry entry of an exit.
pub(crate) struct ExitEntry {
    pub(crate) name: CString,
    pub(crate) owner: ModuleName,
    pub(crate) params: u32,
    pub(crate) node: Arc<Exit>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) parts: Parts,
    /// Readers of its hook.
    pub(crate) readers: Readers,
    /// True if no CPU can be in the exit.
    pub(crate) quiet: bool,
    /// Number of times that the exit has been armed.
    pub(crate) armings: usize,
    pub(crate) file: Option<ExitFile>,
    /// An address in the module that registered the exit; its function may be in another module.
    pub(crate) origin: usize,
    /// Rust object of the exit, dropped after the last call.
    pub(crate) object: Option<KBox<dyn ExitObject>>,
}

/// A Rust exit of any type, kept only to be dropped.
pub(crate) trait ExitObject: Send + Sync {}
impl<E: Send + Sync> ExitObject for E {}

impl ExitEntry {
    /// Returns the counters of the exit.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Makes a fresh node, for an exit that has disarmed itself.
    pub(crate) fn new_node(&self, hook: HookRef) -> Exit {
        Exit::new(&self.parts, hook, self.counters.clone())
    }

    /// Returns true if the function, the record or the owner of the exit is in `module`.
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        module.contains(self.parts.address())
            || module.contains(self.parts.record_address())
            || module.contains(self.origin)
    }

    /// Returns the handle that names the exit in a change.
    pub(crate) fn handle(&self, id: usize) -> Handle {
        Handle {
            id,
            record: self.parts.record_address(),
        }
    }

    /// Returns true if debugfs can neither arm nor disarm the exit.
    pub(crate) fn is_pinned(&self) -> bool {
        self.parts.is_pinned()
    }

    pub(crate) fn condition(&self) -> Condition {
        self.parts.condition()
    }

    /// Marks the exit armed, before its first call. `node` replaces a node that has disarmed
    /// itself.
    pub(crate) fn arm(&mut self, node: Option<Arc<Exit>>) {
        if let Some(node) = node {
            self.node = node;
            self.counters.note_replaced();
        }
        self.quiet = false;
        self.armings = self.armings.wrapping_add(1);
    }
}
