// SPDX-License-Identifier: GPL-2.0

//! Leaks a probe on a tracepoint: its handler's code was freed with the module, and the next switch
//! jumped there. The module's registrations are now recorded, and unregistered when the module is
//! unloaded.
#![forbid(unsafe_code)]

use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

module! {
    type: Client,
    name: "switch_probe_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a probe on a tracepoint",
    license: "GPL v2",
}

struct Switches(Atomic<u64>);

impl SchedSwitch for Switches {
    fn switch(&self, _event: &Switch) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let switches = Arc::new(Switches(Atomic::new(0)), GFP_KERNEL)?;
        core::mem::forget(SchedSwitchProbe::register(switches)?);
        Ok(Self)
    }
}
