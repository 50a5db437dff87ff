// SPDX-License-Identifier: GPL-2.0

//! Tries to change a register of the probed code without an `Alter`, which only unsafe code makes.
#![forbid(unsafe_code)]

use ferro_kprobe::Alter;
use kernel::prelude::*;

module! {
    type: Client,
    name: "registers_altered",
    authors: ["Ferrotrace maintainers"],
    description: "Makes an Alter",
    license: "GPL v2",
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let _alter = Alter::new(); //~ E0133
        Ok(Self)
    }
}
