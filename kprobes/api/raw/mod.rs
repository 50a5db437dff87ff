// SPDX-License-Identifier: GPL-2.0

//! Code of the API that needs `unsafe`: registration at the C interface and its callbacks
//! (`probe.rs`, `retprobe.rs`, and for both `kprobe.rs` and `batch.rs`), the registers of probed
//! code (`regs.rs`, `gpr.rs`), kernel code (`code.rs`), and the permissions to change the behaviour
//! of probed code (`modify_token.rs`) and to probe functions that ftrace cannot trace
//! (`untraceable.rs`).

pub(crate) mod batch;
pub(crate) mod code;
pub(crate) mod gpr;
pub(crate) mod kprobe;
pub(crate) mod modify_token;
pub(crate) mod probe;
pub(crate) mod regs;
pub(crate) mod retprobe;
pub(crate) mod saved_regs;
#[cfg(CONFIG_KPROBES_RUST_API_KUNIT_TEST)]
pub(crate) mod targets;
pub(crate) mod untraceable;

/// Type of the C functions with these parameter types.
#[doc(hidden)]
#[macro_export]
macro_rules! c_function {
    ($($type:ty),*) => { unsafe extern "C" fn($($type),*) -> _ };
}
