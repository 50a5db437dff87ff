// SPDX-License-Identifier: GPL-2.0

//! Declares the types with which a hook of C passes its parameters, which cannot be checked: that
//! takes the client's own `unsafe`.
#![forbid(unsafe_code)]

use ferro_gkhi::declare_hook;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_declared",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

declare_hook! {
    /// A task, as something else.
    pub Fork<'a> = c"task_fork" in Task(task: &'a [u64; 1024], clone_flags: u64);
    unsafe { c"task, clone_flags" } //~ error
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
