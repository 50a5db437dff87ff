// SPDX-License-Identifier: GPL-2.0

//! Code of the API that needs `unsafe`: registration at the C interface and its callbacks
//! (`tracer.rs`, `tracer_set.rs`), the callback's registers (`fregs.rs`, `gpr.rs`), and the
//! module notifier (`module_notifier.rs`).

pub(crate) mod fregs;
// Several crates include this file, so that none needs another.
#[path = "../../../kprobes/api/raw/gpr.rs"]
pub(crate) mod gpr;
#[path = "../../../fast_relay/raw/module_notifier.rs"]
pub(crate) mod module_notifier;
#[cfg(CONFIG_FTRACE_RUST_API_KUNIT_TEST)]
pub(crate) mod targets;
pub(crate) mod tracer;
pub(crate) mod tracer_set;

/// Type of the C functions with these parameter types.
#[doc(hidden)]
#[macro_export]
macro_rules! c_function {
    ($($type:ty),*) => { unsafe extern "C" fn($($type),*) -> _ };
}
