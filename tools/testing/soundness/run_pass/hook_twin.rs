// SPDX-License-Identifier: GPL-2.0

//! Attaches to the hook of `other/hook_twin.rs`, a crate of the same name that defines a hook with
//! the same text and another type. The compiler gives both types one `TypeId`, and an array of
//! numbers was read as a string. A hook is now identified by the static that defines it.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::Answer;
use ferro_gkhi::Priority;
use ferro_gkhi::Registered;
use kernel::prelude::*;

module! {
    type: Twin,
    name: "hook_twin",
    authors: ["Ferrotrace maintainers"],
    description: "One of two crates of one name",
    license: "GPL v2",
}

/// The argument of the hook.
pub struct Value(&'static str);

impl Value {
    #[allow(dead_code)]
    fn get(&self) -> &str {
        &self.0
    }
}

define_hook! {
    /// Has the same text in both crates.
    static TWIN: TwinSpec<'a> = c"sound_twin" in Task(value: &'a Value);
}

struct Twin(#[allow(dead_code)] Registered<TwinSpec>);

impl kernel::Module for Twin {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let exit = Registered::<TwinSpec>::builder(c"twin")
            .priority(Priority::Last)
            .register(|_call, (value,)| {
                pr_err!("BUG: read {} bytes\n", value.get().len());
                Answer::Continue
            })?;
        Ok(Self(exit))
    }
}
