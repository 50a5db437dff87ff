// SPDX-License-Identifier: GPL-2.0

//! Attachment of the engine to the kernel's hook points.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::raw::data_lock::DataLock;
use crate::raw::hooks::Exits;
use crate::raw::rebuild::begin_detach;
use crate::raw::rebuild::rebuild_all;
use crate::registry;
use crate::registry::Registry;

/// The engine, attached to the kernel's hook points. Dropping this hands all trampolines back to
/// the kernel.
pub(crate) struct Attached {
    /// [`Some`] until the drop.
    exits: Option<Exits>,
}

impl Attached {
    /// Attaches the engine and builds the trampolines of all registered ops. Only one instance may
    /// exist at a time.
    ///
    /// Errors: as for [`registry::start`], -EBUSY if there is another engine.
    pub(crate) fn new() -> Result<Self> {
        let exits = Exits::register::<Registry>(c"rust_ftrace_tramp")?;
        registry::start()?;
        // Stubs exist before functions have sets, because a set does not change the target of a
        // site with a stub.
        let armed = DataLock::new().arm::<Registry>(|| Ok(exits.arm()?));
        // `stop()` waits, so call it without the lock.
        armed.inspect_err(|_| registry::stop())?;
        if let Err(error) = rebuild_all() {
            pr_warn!(
                "the kernel's trampolines stay: error {}\n",
                error.to_errno()
            );
        }
        Ok(Self { exits: Some(exits) })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(exits) = self.exits.take() else {
            return;
        };
        // The kernel builds trampolines after this step. Functions get no more sets. The engine
        // still frees its own trampolines.
        begin_detach();
        drop(exits.update);
        let rebuilt = rebuild_all().inspect_err(|error| {
            pr_warn!(
                "the engine's trampolines stay: error {}\n",
                error.to_errno()
            );
        });
        let mut lock = DataLock::new();
        drop(exits.data);
        if let Ok(rebuilt) = rebuilt {
            lock.free_all::<Registry>(&rebuilt);
        }
        drop(lock);
        drop(exits.free);
        drop((exits.set, exits.step));
        registry::stop();
    }
}
