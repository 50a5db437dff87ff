// SPDX-License-Identifier: GPL-2.0

//! Code of the module that needs `unsafe`: the kernel's probes on entry and return (`fprobe.rs`).

pub(crate) mod fprobe;
