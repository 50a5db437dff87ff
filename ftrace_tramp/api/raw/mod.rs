// SPDX-License-Identifier: GPL-2.0

//! What the API needs `unsafe` for: registering at the C interface and its callbacks (`tracer.rs`, `tracer_set.rs`), what the callback is given
//! (`fregs.rs`, `register.rs`), and modules that go (`module_exit.rs`).

pub(crate) mod fregs;
// The same text serves others, as no crate needs another for it.
#[path = "../../../relay/fast/raw/module_notifier.rs"]
pub(crate) mod module_exit;
#[path = "../../../kprobes/api/raw/gpr.rs"]
pub(crate) mod register;
#[cfg(CONFIG_FTRACE_RUST_API_KUNIT_TEST)]
pub(crate) mod targets;
pub(crate) mod tracer;
pub(crate) mod tracer_set;

/// The type of the C functions that take these types.
#[doc(hidden)]
#[macro_export]
macro_rules! c_function {
    ($($type:ty),*) => { unsafe extern "C" fn($($type),*) -> _ };
}
