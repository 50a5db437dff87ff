// SPDX-License-Identifier: GPL-2.0

//! Code of jprobes that needs `unsafe`: the clients' structures (`jprobe.rs`), and the call of a
//! handler (`handler.rs`, with `call.S` and `frame.c`).

pub(crate) mod handler;
pub(crate) mod jprobe;
