// SPDX-License-Identifier: GPL-2.0

//! Attaching the engine to the kernel's hook points.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use ferro_gkhi::points::TrampolineData;
use ferro_gkhi::points::TrampolineFree;
use ferro_gkhi::points::TrampolineUpdate;
use ferro_gkhi::Registered;
use kernel::prelude::*;

use crate::raw::func_data::DataLock;
use crate::raw::hooks;
use crate::raw::hooks::SetExits;
use crate::raw::rebuild::renew;
use crate::raw::rebuild::with_ftrace_lock;
use crate::registry;

/// The engine, attached to the kernel's hook points. When this is dropped, all trampolines are the kernel's again.
pub(crate) struct Attached {
    /// All are there until this is dropped.
    update: Option<Registered<TrampolineUpdate>>,
    free: Option<Registered<TrampolineFree>>,
    sets: Option<SetExits>,
    data: Option<Registered<TrampolineData>>,
}

impl Attached {
    /// Attaches it, and makes the trampolines of the ops that are registered; once, unless it is dropped.
    ///
    /// Errors: as for [`registry::start`], -EBUSY if there is another engine.
    pub(crate) fn new() -> Result<Self> {
        let (update, free) =
            hooks::register(c"rust_ftrace_tramp", registry::update, registry::free)?;
        let (set, step) =
            hooks::register_sets(c"rust_ftrace_tramp", registry::change_set, registry::step)?;
        let data = hooks::register_data(c"rust_ftrace_tramp", registry::change_data)?;
        registry::start()?;
        // All at once: what is made has to be freed by the same engine. Stubs are there before functions have sets: what the site
        // of one with a stub calls does not change.
        let arm = || Ok(ferro_gkhi::arm(&[&update, &free, &set, &step, &data])?);
        // Without the lock: `stop()` waits.
        let armed = DataLock::new().arm(arm);
        armed.inspect_err(|_| registry::stop())?;
        if let Err(error) = renew() {
            pr_warn!(
                "the kernel's trampolines stay: error {}\n",
                error.to_errno()
            );
        }
        Ok(Self {
            update: Some(update),
            free: Some(free),
            sets: Some((set, step)),
            data: Some(data),
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // From here on the kernel makes them, functions get no set, and this still frees its own.
        with_ftrace_lock(registry::leave);
        drop(self.update.take());
        let renewed = renew().inspect_err(|error| {
            pr_warn!(
                "the engine's trampolines stay: error {}\n",
                error.to_errno()
            );
        });
        let mut lock = DataLock::new();
        drop(self.data.take());
        if let Ok(renewed) = renewed {
            lock.free_all(&renewed);
        }
        drop(lock);
        drop(self.free.take());
        drop(self.sets.take());
        registry::stop();
    }
}
