// SPDX-License-Identifier: GPL-2.0

//! Leaks tracers: their handlers are code of the module, and the next call of a traced function
//! would jump to freed memory. The module's registrations are recorded, and unregistered when the
//! module is unloaded.
#![forbid(unsafe_code)]

use ferro_ftrace::FunctionCall;
use ferro_ftrace::Tracer;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: Client,
    name: "tracer_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets tracers",
    license: "GPL v2",
}

static CALLS: Atomic<u64> = Atomic::new(0);

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let names = Tracer::builder().names(&[c"kernel_clone"]);
        core::mem::forget(names.register(|_: &FunctionCall<'_>| {
            CALLS.fetch_add(1, Relaxed);
        })?);
        let globs = Tracer::builder().globs(&[c"vfs_*"]);
        let boxed = globs.register_boxed(|_| {
            CALLS.fetch_add(1, Relaxed);
        })?;
        core::mem::forget(KBox::new(boxed, GFP_KERNEL)?);
        Ok(Self)
    }
}
