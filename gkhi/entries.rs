// SPDX-License-Identifier: GPL-2.0

//! Entries of the registry: hooks, exits, and deregistered exits that may still be running.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::hook::AtRest;
use ferro_sys::hook::Condition;
use ferro_sys::hook::Counters;
use ferro_sys::hook::DeferredRelease;
use ferro_sys::hook::Exit;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Module;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Parts;
use ferro_sys::hook::Publisher;
use ferro_sys::hook::Readers;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use crate::debugfs_nodes::ExitFile;
use crate::raw::ExitId;

/// Registry entry of a hook.
pub(crate) struct HookEntry {
    pub(crate) publisher: Publisher,
    pub(crate) owner: ModuleName,
    /// True if the hook was defined in Rust, with a type for its exits.
    pub(crate) typed: bool,
    /// Counter of dispatches of chains.
    pub(crate) dispatches: Arc<PerCpuCounter>,
    /// Number of dispatches to single exits that have been deregistered.
    pub(crate) past_hits: usize,
    pub(crate) dir: Option<Dir>,
}

impl HookEntry {
    pub(crate) fn name(&self) -> &CStr {
        self.publisher.hook_ref().name().unwrap_or(c"")
    }
}

impl ExitId {
    /// Returns the handle of an exit that was registered in Rust, which has no record.
    pub(crate) fn handle(self) -> Handle {
        Handle {
            id: self.0,
            record: 0,
        }
    }
}

/// Handle of an exit: its number, and the address of its C record, or 0.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) record: usize,
}

/// Registry entry of an exit.
pub(crate) struct ExitEntry {
    pub(crate) name: CString,
    pub(crate) owner: ModuleName,
    pub(crate) params: u32,
    pub(crate) node: Arc<Exit>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) parts: Parts,
    /// Readers of the exit's hook, to wait for.
    pub(crate) readers: Readers,
    /// True if no CPU can be in the exit: it was never armed, or was waited for since its disarm.
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

/// A deregistered exit, kept until its object has been dropped. The unload of its module waits for
/// that.
pub(crate) struct RetiredExit {
    pub(crate) id: usize,
    pub(crate) exit: ExitEntry,
    pub(crate) stage: Stage,
    /// Release to defer again when the exit has returned. `None` until a dropped owner leaves it
    /// here.
    pub(crate) release: Option<KBox<DeferredRelease>>,
}

/// Stage of the removal of a deregistered exit.
#[derive(PartialEq, Eq)]
pub(crate) enum Stage {
    /// The task that deregistered the exit waits for its calls.
    Quiescing,
    /// The wait is over, but a call of the exit has not returned: it sleeps where it must not, or
    /// is the caller.
    Busy,
    /// The exit was busy, and [`AtRest`] is its state after the last call. Another wait has to
    /// confirm that this call has returned.
    Resting(AtRest),
    /// No call is left, and no CPU is returning from one.
    Quiesced,
    /// The object of the exit is being dropped.
    Dropping,
}
