// SPDX-License-Identifier: GPL-2.0

//! What jprobes need `unsafe` for: the clients' structures (`jprobe.rs`), and the call of a handler (`handler.rs`, with
//! `call.S` and `frame.c`).

pub(crate) mod handler;
pub(crate) mod jprobe;
