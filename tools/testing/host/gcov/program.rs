// SPDX-License-Identifier: GPL-2.0

//! Program that rustc instruments for the tests of gcov/core.

#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

fn generic<T: Into<u64>>(value: T) -> u64 {
    match value.into() {
        0 => 7,
        value if value % 3 == 0 || value > 40 => value / 3,
        value => 3 * value + 1,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn never(value: u32) -> u64 {
    generic(value) + 1
}

#[unsafe(no_mangle)]
pub extern "C" fn main(argc: i32, _argv: *const *const u8) -> i32 {
    let mut sum = 0;
    for value in 0..50_u32 {
        sum += generic(value) + generic(u64::from(value));
    }
    if argc > 7 {
        never(3) as i32
    } else {
        i32::from(sum == 0)
    }
}
