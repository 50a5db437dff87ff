// SPDX-License-Identifier: GPL-2.0

//! Tries to give a work item an errand with data that only one thread may use.
#![forbid(unsafe_code)]

use core::cell::Cell;
use ferro_sys::sync::deferred_call::OnErrand;
use kernel::prelude::*;

module! {
    type: Client,
    name: "errand_not_shared",
    authors: ["Ferrotrace maintainers"],
    description: "Has an errand done with what cannot be shared",
    license: "GPL v2",
}

struct Counter(Cell<u64>);

// The comment stays on its line.
#[rustfmt::skip]
impl OnErrand for Counter { //~ E0277
    fn on_errand(&self) {
        self.0.set(self.0.get().wrapping_add(1));
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
