// SPDX-License-Identifier: GPL-2.0

//! Leaks a klog handler, which is code of the module. `klog()` then called freed code. The handler
//! is unregistered with its module.
#![forbid(unsafe_code)]

use ferro_klog::klog;
use ferro_klog::Handler;
use ferro_klog::Registration;
use ferro_sys::cpu::IrqsOff;
use kernel::prelude::*;

module! {
    type: Client,
    name: "klog_handler_forgotten",
    authors: ["Ferrotrace maintainers"],
    description: "Forgets a klog handler",
    license: "GPL v2",
}

struct Silent;

impl Handler for Silent {
    fn klog(_irqs: &IrqsOff, _message: &[u8]) {}
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // For the handler of the time before.
        klog!("from {}\n", "the next");
        core::mem::forget(Registration::<Silent>::register()?);
        Ok(Self)
    }
}
