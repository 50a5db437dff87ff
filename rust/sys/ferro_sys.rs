// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's safe layer over the kernel.
//!
//! Only this crate, `exports.rs` and `raw/` of each engine contain `unsafe`. Each file covers one
//! topic of the kernel and states its invariants once. Its interface is safe, or names an
//! obligation that the caller can keep.

pub mod code;
pub mod cpu;
pub mod fs;
pub mod hook;
mod layout;
pub mod mm;
pub mod sync;
#[cfg(CONFIG_FERRO_SYS_KUNIT_TEST)]
mod tests;
pub mod trace;

#[cfg(CONFIG_FERROTRACE_STOCK)]
pub use ferro_bindings as bindings;
#[cfg(not(CONFIG_FERROTRACE_STOCK))]
pub use kernel::bindings;

/// Checks that functions which C calls have the types of their declarations in C headers. As
/// `#[export]` does it, but that looks for the declarations only in `kernel::bindings`.
#[macro_export]
macro_rules! declared_in_c {
    ($($name:ident),* $(,)?) => {
        $(const _: () = {
            // Both arms of an `if` have the same type.
            if true { $crate::bindings::$name } else { $name };
        };)*
    };
}

/// Prefix of log messages of this crate.
const __LOG_PREFIX: &[u8] = b"ferro_sys\0";
