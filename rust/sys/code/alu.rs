// SPDX-License-Identifier: GPL-2.0

//! Arithmetic as the CPU does it. Tests on the host include this file, to compare it with executed
//! instructions.
//!
//! Contexts: any, NMI included.

use core::arch::asm;

use ferro_core::exec::Arithmetic;

/// Returns the result and the flags of an operation, on 64 bits if it is `wide`, otherwise on the
/// lower 32.
#[inline(always)]
pub(crate) fn calculate(operation: Arithmetic, a: u64, b: u64, wide: bool) -> (u64, u64) {
    macro_rules! executed {
        ($text:literal) => {{
            let (result, flags): (u64, u64);
            // SAFETY: The instructions change the registers that are named, and flags; every push
            // has its pop.
            unsafe {
                asm!($text, "pushfq", "pop {flags}", a = inout(reg) a => result, b = in(reg) b,
                    flags = out(reg) flags)
            };
            (result, flags)
        }};
    }
    match (operation, wide) {
        (Arithmetic::Add, true) => executed!("add {a}, {b}"),
        (Arithmetic::Add, false) => executed!("add {a:e}, {b:e}"),
        (Arithmetic::Sub, true) => executed!("sub {a}, {b}"),
        (Arithmetic::Sub, false) => executed!("sub {a:e}, {b:e}"),
        (Arithmetic::And, true) => executed!("and {a}, {b}"),
        (Arithmetic::And, false) => executed!("and {a:e}, {b:e}"),
        (Arithmetic::Or, true) => executed!("or {a}, {b}"),
        (Arithmetic::Or, false) => executed!("or {a:e}, {b:e}"),
        (Arithmetic::Xor, true) => executed!("xor {a}, {b}"),
        (Arithmetic::Xor, false) => executed!("xor {a:e}, {b:e}"),
    }
}
