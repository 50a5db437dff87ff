// SPDX-License-Identifier: GPL-2.0

//! Attaching the engine to the kernel's hook points.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use ferro_gkhi::points::TrampolineFree;
use ferro_gkhi::points::TrampolineUpdate;
use ferro_gkhi::Registered;
use kernel::prelude::*;

use crate::engine;
use crate::raw::hooks;

/// The engine, attached to the kernel's hook points.
pub(crate) struct Attached {
    _update: Registered<TrampolineUpdate>,
    _free: Registered<TrampolineFree>,
}

impl Attached {
    /// Attaches it; once, unless it is dropped. Errors: as for [`engine::start`], -EBUSY if there is another engine.
    pub(crate) fn new() -> Result<Self> {
        let (update, free) = hooks::register(c"rust_ftrace_tramp", engine::update, engine::free)?;
        engine::start()?;
        // Both at once: what is made has to be freed by the same engine.
        ferro_gkhi::arm(&[&update, &free]).inspect_err(|_| engine::stop())?;
        Ok(Self {
            _update: update,
            _free: free,
        })
    }
}
