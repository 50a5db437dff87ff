// SPDX-License-Identifier: GPL-2.0

//! Code of the API that needs `unsafe`. `probe.rs` and `retprobe.rs` register at the C interface
//! and have its callbacks, with `kprobe.rs` and `batch.rs` for both, and `leaked_probes.rs` for
//! mainline's engine. `regs.rs` and `gpr.rs` have
//! the registers of probed code. `permissions.rs` has the permissions to change probed code and to
//! probe functions that ftrace cannot trace.

pub(crate) mod batch;
pub(crate) mod gpr;
pub(crate) mod kprobe;
pub(crate) mod leaked_probes;
pub(crate) mod permissions;
pub(crate) mod probe;
pub(crate) mod regs;
pub(crate) mod retprobe;
#[cfg(CONFIG_KPROBES_RUST_API_KUNIT_TEST)]
pub(crate) mod targets;

/// Type of the C functions with these parameter types.
#[doc(hidden)]
#[macro_export]
macro_rules! c_function {
    ($($type:ty),*) => { unsafe extern "C" fn($($type),*) -> _ };
}
