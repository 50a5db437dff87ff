// SPDX-License-Identifier: GPL-2.0

//! Attaches the engine to the kernel's hook points and takes the objects over from the previous
//! exporter.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::debugfs;
use crate::raw::hooks::Exits;
use crate::raw::hooks::Offer;
use crate::raw::object::Candidate;
use crate::raw::object::Object;
use crate::raw::owner::ModuleId;
use crate::raw::takeover::give_back;
use crate::raw::takeover::persists;
use crate::raw::takeover::take_over;
use crate::raw::takeover::Receiver;
use crate::raw::tree::DebugfsTree;
use crate::registry;

/// The engine, attached to the kernel's hook points. Gives all objects back when dropped.
pub(crate) struct Attached {
    /// Set until the drop, as is `tree`.
    exits: Option<Exits>,
    tree: Option<DebugfsTree>,
}

struct Engine;

impl Receiver for Engine {
    fn object(object: Candidate) -> bool {
        registry::take(object) == Offer::Done
    }

    fn module_going(module: ModuleId) {
        registry::module_going(module);
    }

    fn kept(filename: &[u8], gcda: &[u8]) {
        registry::keep(filename, gcda);
    }

    fn next() -> Option<Object> {
        registry::give_back()
    }
}

impl Attached {
    /// Attaches the engine, takes the objects over and creates the files. `persist` overrides the
    /// command line: it says if the counters of unloaded modules are kept.
    ///
    /// Errors: -EEXIST if debugfs `gcov/` already exists, -ENOMEM. A missing debugfs is no error:
    /// there are no files then.
    pub(crate) fn new(persist: Option<bool>) -> Result<Self> {
        registry::start(persist.unwrap_or_else(persists))?;
        // The exits first, then the existing objects: none is missed, and none is offered twice.
        let exits = Exits::new(c"rust_gcov", registry::take, registry::module_going)
            .inspect_err(|_| registry::stop())?;
        take_over::<Engine>(&exits);
        // If this fails, the drop gives back the objects that were taken over.
        let mut attached = Self {
            exits: Some(exits),
            tree: None,
        };
        attached.tree = debugfs::show()?;
        Ok(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // The registry refuses new objects after this.
        registry::begin_detach();
        drop(self.tree.take());
        give_back::<Engine>();
        drop(self.exits.take());
        registry::stop();
    }
}
