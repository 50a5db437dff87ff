// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's user-space side: recording relay channels, decoding recordings, watching and arming
//! exits on hooks, probing the kernel, tracing its functions, and reporting what of its code was
//! executed.
//!
//! [`relay`] drains the kernel's channels, [`fast`] is the format of fast channels, [`merge`] reads
//! recordings, and [`recover`] makes one of memory that has survived a reboot; [`hooks`] shows and
//! arms the exits on the kernel's hooks; [`probes`] adds probes and shows their hits; [`dprobes`]
//! reads and loads probe programs; [`elf`] looks places up in the files that are probed;
//! [`functions`] counts and times calls; [`graph`] shows them as trees; [`events`] records those of
//! tracefs, and [`tracepoints`] shows and counts them; [`cov`] reports coverage; [`near`] says what
//! somebody may have meant. The only unsafe code is in `relay/mapping.rs`.
//!
//! [`doctor`] tells which of this works on a machine; [`lockdown`] may be why root is refused.

pub mod clock;
pub mod cov;
pub mod directory;
pub mod doctor;
pub mod dprobes;
pub mod elf;
pub mod events;
pub mod export;
pub mod fast;
pub mod file;
pub mod functions;
pub mod graph;
pub mod hooks;
pub mod kallsyms;
pub mod kernel_dir;
pub mod lockdown;
pub mod merge;
pub mod near;
pub mod pids;
pub mod probes;
pub mod recover;
pub mod relay;
pub mod report;
pub mod signals;
pub mod text;
pub mod tracepoints;
pub mod trusted_path;
