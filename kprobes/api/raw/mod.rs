// SPDX-License-Identifier: GPL-2.0

//! What the API needs `unsafe` for: registering at the C interface and its callbacks (`probe.rs`, `retprobe.rs`, and for
//! both `kprobe.rs` and `batch.rs`), the registers of probed code (`regs.rs`, `gpr.rs`), code of the kernel (`code.rs`), and the
//! permissions to change what probed code does (`modify_token.rs`) and to probe what ftrace cannot trace (`untraceable.rs`).

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

/// The type of the C functions that take these types.
#[doc(hidden)]
#[macro_export]
macro_rules! c_function {
    ($($type:ty),*) => { unsafe extern "C" fn($($type),*) -> _ };
}
