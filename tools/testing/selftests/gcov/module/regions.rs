// SPDX-License-Identifier: GPL-2.0

//! Compiled for coverage by rustc.

#[inline(never)]
fn odd(number: u32) -> u32 {
    number.wrapping_mul(3) // ODD
}

#[inline(never)]
fn even<T: core::ops::Div<Output = T> + From<u8>>(number: T) -> T {
    number / T::from(2) // EVEN
}

/// Called by `rust_module.c`; the calls are counted.
// SAFETY: The name is this module's own.
#[unsafe(no_mangle)]
pub extern "C" fn gcov_rust(calls: u32) -> u32 {
    let mut sum = 0_u32;
    for i in 0..calls {
        sum = sum.wrapping_add(if i % 2 == 1 { odd(i) } else { even(i) });
    }
    if calls == u32::MAX {
        sum = 0; // NEVER
    }
    sum
}
