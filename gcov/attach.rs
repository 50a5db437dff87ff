// SPDX-License-Identifier: GPL-2.0

//! Attaching the engine to the kernel's hook points, and taking over from whoever has objects.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::engine;
use crate::raw::handover::hand_over;
use crate::raw::handover::persists;
use crate::raw::handover::take_back;
use crate::raw::handover::Taker;
use crate::raw::home::ModuleId;
use crate::raw::hooks::Exits;
use crate::raw::hooks::Offer;
use crate::raw::object::Arrived;
use crate::raw::object::Loaded;
use crate::raw::tree::Shown;

/// The engine, attached to the kernel's hook points. When this is dropped, all objects are given back.
pub(crate) struct Attached {
    /// There until this is dropped, as are the files.
    exits: Option<Exits>,
    shown: Option<Shown>,
}

struct Engine;

impl Taker for Engine {
    fn object(object: Arrived) -> bool {
        engine::arrive(object) == Offer::Done
    }

    fn gone(module: ModuleId) {
        engine::going(module);
    }

    fn kept(filename: &[u8], gcda: &[u8]) {
        engine::keep(filename, gcda);
    }

    fn next() -> Option<Loaded> {
        engine::give_back()
    }
}

impl Attached {
    /// Attaches it, takes over, and makes the files. `persist`: whether to keep what modules that go have counted, if not as the
    /// command line says.
    ///
    /// Errors: -EEXIST if somebody else has debugfs `gcov/`, -ENOMEM; without debugfs there are no files, which is none.
    pub(crate) fn new(persist: Option<bool>) -> Result<Self> {
        engine::start(persist.unwrap_or_else(persists))?;
        // First those that come from now on, then those that are there: none is missed, and none comes twice.
        let exits = Exits::new(c"rust_gcov", engine::arrive, engine::going)
            .inspect_err(|_| engine::stop())?;
        hand_over::<Engine>(&exits);
        // What has been taken over goes back if this fails.
        let mut attached = Self {
            exits: Some(exits),
            shown: None,
        };
        attached.shown = engine::show()?;
        Ok(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // From here on those that come are not taken.
        engine::leave();
        drop(self.shown.take());
        take_back::<Engine>();
        drop(self.exits.take());
        engine::stop();
    }
}
