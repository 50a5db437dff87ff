// SPDX-License-Identifier: GPL-2.0

//! Tests of the command as users see it, in one program: linking one per file would take longer
//! than all tests run.

#![allow(
    missing_docs,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod common;

mod command;
mod cov;
mod ctf;
mod doctor;
mod dprobes;
mod dprobes_samples;
mod errors;
mod escapes;
mod export;
mod fast_drain;
mod fast_record;
mod fast_stat;
mod flags;
mod hooks;
mod klog;
mod manual;
mod merge;
mod other_users;
mod overwrite;
mod probe;
mod record;
mod recover;
mod report;
mod stacks;
mod tables;
mod version;
