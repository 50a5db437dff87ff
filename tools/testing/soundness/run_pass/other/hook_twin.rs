// SPDX-License-Identifier: GPL-2.0

//! The hook that `../hook_twin.rs`, a crate of the same name, defines with the same text and
//! another type.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::RegisteredHook;
use kernel::prelude::*;

module! {
    type: Twin,
    name: "hook_twin_other",
    authors: ["Ferrotrace maintainers"],
    description: "One of two crates of one name",
    license: "GPL v2",
}

/// The argument of the hook.
pub struct Value(#[allow(dead_code)] [usize; 2]);

define_hook! {
    /// Has the same text in both crates.
    static TWIN: TwinSpec<'a> = c"sound_twin" in Task(value: &'a Value);
}

struct Twin(#[allow(dead_code)] RegisteredHook);

impl kernel::Module for Twin {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let hook = RegisteredHook::register(&TWIN)?;
        Ok(Self(hook))
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        hook!(TWIN, &Value([1, 2]));
    }
}
