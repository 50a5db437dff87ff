// SPDX-License-Identifier: GPL-2.0

//! What the module needs `unsafe` for: the kernel's probes on entry and return (`fprobe.rs`).

pub(crate) mod fprobe;
