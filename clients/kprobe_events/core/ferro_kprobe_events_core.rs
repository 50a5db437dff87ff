// SPDX-License-Identifier: GPL-2.0

//! Pure logic of the module `ferrotrace_kprobe_events`: its commands, and the arguments and
//! numbers of probes.

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

pub mod numbers;
pub mod probe_args;
pub mod probe_command;
pub mod table;
pub mod value;
