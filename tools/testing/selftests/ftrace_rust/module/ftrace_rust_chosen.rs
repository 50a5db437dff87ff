// SPDX-License-Identifier: GPL-2.0

//! A module outside of the tree; its Makefile enables tracing of its functions.
#![deny(unsafe_code)]

use kernel::prelude::*;

module! {
    type: Chosen,
    name: "ftrace_rust_chosen",
    authors: ["Ferrotrace maintainers"],
    description: "A function that is, or is not, traced",
    license: "GPL v2",
}

struct Chosen {
    length: usize,
}

/// Is a function of its own.
#[inline(never)]
pub fn length(text: &CStr) -> usize {
    text.to_bytes().len()
}

impl kernel::Module for Chosen {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            length: length(c"function"),
        })
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        pr_info!("{}\n", self.length);
    }
}
