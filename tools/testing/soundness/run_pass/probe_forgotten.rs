// SPDX-License-Identifier: GPL-2.0

//! Leaks a probe: its handler is code of the module. The engine unregisters the probes of a module
//! that is unloaded.
#![forbid(unsafe_code)]

use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeHandler;
use kernel::prelude::*;

module! {
    type: Client,
    name: "probe_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a probe",
    license: "GPL v2",
}

struct Nothing;

#[vtable]
impl ProbeHandler for Nothing {
    fn pre(&self, _ctx: &mut ProbeCtx<'_>) -> Next {
        Next::Continue
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let probe = Probe::builder().symbol(c"kernel_clone").register(Nothing)?;
        core::mem::forget(probe);
        Ok(Self)
    }
}
