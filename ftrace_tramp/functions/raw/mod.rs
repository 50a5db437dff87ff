// SPDX-License-Identifier: GPL-2.0

//! What the module needs `unsafe` for: the kernel's probes on entry and return (`timer.rs`).

pub(crate) mod timer;
