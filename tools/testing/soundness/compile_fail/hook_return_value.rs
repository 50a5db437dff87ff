// SPDX-License-Identifier: GPL-2.0

//! Declares that a type is no return value, and makes an exit return it: a store to the address in
//! the last parameter.
#![forbid(unsafe_code)]

use ferro_sys::hook::typed::ReturnValue;
use kernel::ffi::c_long;
use kernel::prelude::*;

module! {
    type: Client,
    name: "hook_return_value",
    authors: ["Ferrotrace maintainers"],
    description: "Must not compile",
    license: "GPL v2",
}

struct Wild;

impl ReturnValue for Wild { //~ E0277
    const SOME: bool = false;

    fn into_raw(self) -> c_long {
        0
    }

    fn from_raw(_: c_long) -> Self {
        Self
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
