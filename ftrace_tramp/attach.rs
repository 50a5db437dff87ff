// SPDX-License-Identifier: GPL-2.0

//! Attachment of the engine to the kernel's hook points.
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
use crate::raw::rebuild::rebuild_all;
use crate::raw::rebuild::with_ftrace_lock;
use crate::registry;

/// Registrations of the engine at the kernel's hook points. Dropping this hands all trampolines
/// back to the kernel.
pub(crate) struct Attached {
    /// Every field is [`Some`] until the drop.
    update: Option<Registered<TrampolineUpdate>>,
    free: Option<Registered<TrampolineFree>>,
    sets: Option<SetExits>,
    data: Option<Registered<TrampolineData>>,
}

impl Attached {
    /// Attaches the engine and builds the trampolines of all registered ops. Only one instance may
    /// exist at a time.
    ///
    /// Errors: as for [`registry::start`], -EBUSY if there is another engine.
    pub(crate) fn new() -> Result<Self> {
        let (update, free) =
            hooks::register(c"rust_ftrace_tramp", registry::update, registry::free)?;
        let (set, step) =
            hooks::register_sets(c"rust_ftrace_tramp", registry::change_set, registry::step)?;
        let data = hooks::register_data(c"rust_ftrace_tramp", registry::change_data)?;
        registry::start()?;
        // Arm all at once: the engine that makes a trampoline has to free it. Stubs exist before
        // functions have sets, because a set does not change the target of a site with a stub.
        let arm = || Ok(ferro_gkhi::arm(&[&update, &free, &set, &step, &data])?);
        // `stop()` waits, so call it without the lock.
        let armed = DataLock::new().arm(arm);
        armed.inspect_err(|_| registry::stop())?;
        if let Err(error) = rebuild_all() {
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
        // The kernel builds trampolines after this step. Functions get no more sets. The engine
        // still frees its own trampolines.
        with_ftrace_lock(registry::begin_detach);
        drop(self.update.take());
        let rebuilt = rebuild_all().inspect_err(|error| {
            pr_warn!(
                "the engine's trampolines stay: error {}\n",
                error.to_errno()
            );
        });
        let mut lock = DataLock::new();
        drop(self.data.take());
        if let Ok(rebuilt) = rebuilt {
            lock.free_all(&rebuilt);
        }
        drop(lock);
        drop(self.free.take());
        drop(self.sets.take());
        registry::stop();
    }
}
