// SPDX-License-Identifier: GPL-2.0

//! Tries to make a guard of interrupts, and to drop it in the middle of another section:
//! `reserve(n, |_| drop(guard))` turned interrupts on there. Now sections are closures, which end
//! in the reverse order of their beginning.
#![forbid(unsafe_code)]

use ferro_sys::cpu::IrqsOff;
use kernel::prelude::*;

module! {
    type: Client,
    name: "irqs_off_made",
    authors: ["Ferrotrace maintainers"],
    description: "Makes a proof that interrupts are off",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let _guard = IrqsOff::new(); //~ E0599
        let _proof = IrqsOff::assume(); //~ E0624
        Ok(Self)
    }
}
