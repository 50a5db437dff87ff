// SPDX-License-Identifier: GPL-2.0

//! A module outside of the tree; its Makefile does not mention ftrace.
#![deny(unsafe_code)]

use kernel::prelude::*;

module! {
    type: Left,
    name: "ftrace_rust_left",
    authors: ["Ferrotrace maintainers"],
    description: "A function that is, or is not, traced",
    license: "GPL v2",
}

struct Left {
    length: usize,
}

/// Is a function of its own.
#[inline(never)]
pub fn length(text: &CStr) -> usize {
    text.to_bytes().len()
}

impl kernel::Module for Left {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            length: length(c"function"),
        })
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        pr_info!("{}\n", self.length);
    }
}
