// SPDX-License-Identifier: GPL-2.0

//! Tries to give a work item an errand with borrowed data, which may be dropped by then.
#![forbid(unsafe_code)]

use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::sync::deferred_call::OnErrand;
use kernel::prelude::*;

module! {
    type: Client,
    name: "errand_borrows",
    authors: ["Ferrotrace maintainers"],
    description: "Has an errand done with what is borrowed",
    license: "GPL v2",
}

struct Borrowed(&'static u64);

impl OnErrand for Borrowed {
    fn on_errand(&self) {
        pr_info!("{}\n", self.0);
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let number = 5;
        let borrowed = Borrowed(&number); //~ E0597
        let errand = KBox::pin_init(Errand::new::<Error>(Ok(borrowed)), GFP_KERNEL)?;
        errand.ask();
        core::mem::forget(errand);
        Ok(Self)
    }
}
