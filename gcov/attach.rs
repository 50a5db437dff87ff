// SPDX-License-Identifier: GPL-2.0

//! Attaching the engine to the kernel's hook points, and taking over from whoever has objects.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::raw::hooks::Exits;
use crate::raw::hooks::Offer;
use crate::raw::object::Candidate;
use crate::raw::object::Loaded;
use crate::raw::owner::ModuleId;
use crate::raw::takeover::hand_over;
use crate::raw::takeover::persists;
use crate::raw::takeover::take_back;
use crate::raw::takeover::Taker;
use crate::raw::tree::Shown;
use crate::registry;

/// The engine, attached to the kernel's hook points. When this is dropped, all objects are given back.
pub(crate) struct Attached {
    /// There until this is dropped, as are the files.
    exits: Option<Exits>,
    shown: Option<Shown>,
}

struct Engine;

impl Taker for Engine {
    fn object(object: Candidate) -> bool {
        registry::arrive(object) == Offer::Done
    }

    fn gone(module: ModuleId) {
        registry::going(module);
    }

    fn kept(filename: &[u8], gcda: &[u8]) {
        registry::keep(filename, gcda);
    }

    fn next() -> Option<Loaded> {
        registry::give_back()
    }
}

impl Attached {
    /// Attaches it, takes over, and makes the files. `persist`: whether to keep what modules that go have counted, if not as the
    /// command line says.
    ///
    /// Errors: -EEXIST if somebody else has debugfs `gcov/`, -ENOMEM; without debugfs there are no files, which is none.
    pub(crate) fn new(persist: Option<bool>) -> Result<Self> {
        registry::start(persist.unwrap_or_else(persists))?;
        // First those that come from now on, then those that are there: none is missed, and none comes twice.
        let exits = Exits::new(c"rust_gcov", registry::arrive, registry::going)
            .inspect_err(|_| registry::stop())?;
        hand_over::<Engine>(&exits);
        // What has been taken over goes back if this fails.
        let mut attached = Self {
            exits: Some(exits),
            shown: None,
        };
        attached.shown = registry::show()?;
        Ok(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // From here on those that come are not taken.
        registry::leave();
        drop(self.shown.take());
        take_back::<Engine>();
        drop(self.exits.take());
        registry::stop();
    }
}
