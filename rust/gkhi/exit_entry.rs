// SPDX-License-Identifier: GPL-2.0

//! What the registry keeps of an exit.
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

/// What the registry keeps of an exit.
pub(crate) struct ExitEntry {
    pub(crate) name: CString,
    pub(crate) owner: ModuleName,
    pub(crate) params: u32,
    pub(crate) node: Arc<Exit>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) parts: Parts,
    /// Where its hook's dispatches are.
    pub(crate) readers: Readers,
    /// Whether no CPU can be in it.
    pub(crate) quiet: bool,
    /// How often it has been armed.
    pub(crate) armings: usize,
    pub(crate) file: Option<ExitFile>,
    /// An address in the module that registered it, which need not be the one with the function.
    pub(crate) origin: usize,
    /// What it is in Rust; dropped when it is not called any more.
    pub(crate) owned: Option<KBox<dyn Kept>>,
}

/// An exit of any type, to be dropped.
pub(crate) trait Kept: Send + Sync {}
impl<E: Send + Sync> Kept for E {}

impl ExitEntry {
    /// What it has counted.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The exit anew, as it was before it disarmed itself.
    pub(crate) fn new_node(&self, hook: HookRef) -> Exit {
        Exit::new(&self.parts, hook, self.counters.clone())
    }

    /// Whether something of it is in a module.
    pub(crate) fn is_of(&self, module: &Module) -> bool {
        module.contains(self.parts.address())
            || module.contains(self.parts.record_address())
            || module.contains(self.origin)
    }

    /// What names it in a change.
    pub(crate) fn handle(&self, id: usize) -> Handle {
        Handle {
            id,
            record: self.parts.record_address(),
        }
    }

    /// Whether debugfs leaves it alone.
    pub(crate) fn is_pinned(&self) -> bool {
        self.parts.is_pinned()
    }

    pub(crate) fn condition(&self) -> Condition {
        self.parts.condition()
    }

    /// It is about to be called, as `node` if it has disarmed itself before.
    pub(crate) fn arm(&mut self, node: Option<Arc<Exit>>) {
        if let Some(node) = node {
            self.node = node;
            self.counters.note_renewed();
        }
        self.quiet = false;
        self.armings = self.armings.wrapping_add(1);
    }
}
