// SPDX-License-Identifier: GPL-2.0

//! Tries to keep the proof that interrupts are off beyond the section.
#![forbid(unsafe_code)]

use ferro_sys::cpu::with_irqs_off;
use kernel::prelude::*;

module! {
    type: Client,
    name: "irqs_off_kept",
    authors: ["Ferrotrace maintainers"],
    description: "Keeps a proof that interrupts are off",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let mut kept = None;
        with_irqs_off(|irqs| kept = Some(irqs)); //~ E0521
        drop(kept);
        Ok(Self)
    }
}
