// SPDX-License-Identifier: GPL-2.0

//! The functions that the tests probe: `kprobes/api/targets/targets.c`.

use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::prelude::*;

use crate::ffi::Alter;

extern "C" {
    fn kprobe_api_add(a: usize, b: usize) -> usize;
    pub(crate) fn kprobe_api_next(value: c_int) -> c_int;
    pub(crate) fn kprobe_api_eight(
        a: c_int,
        b: u8,
        c: bool,
        d: *const c_char,
        e: i64,
        f: u16,
        g: c_long,
        h: c_long,
    ) -> c_long;
    fn kprobe_api_depth(depth: c_int) -> c_int;
    fn kprobe_api_start_calling() -> c_int;
    fn kprobe_api_stop_calling();
}

/// `a + b`: three bytes that move `a` to ax, three that add `b`, and a return.
pub(crate) fn add(a: usize, b: usize) -> usize {
    // SAFETY: Takes any numbers.
    unsafe { kprobe_api_add(a, b) }
}

/// `value + 1`.
pub(crate) fn next(value: i32) -> i32 {
    // SAFETY: Takes any number.
    unsafe { kprobe_api_next(value) }
}

/// The sum of everything, `d`'s first character included.
#[expect(clippy::too_many_arguments)]
pub(crate) fn eight(a: i32, b: u8, c: bool, d: &CStr, e: i64, f: u16, g: isize, h: isize) -> isize {
    // SAFETY: Reads the first byte of `d`.
    unsafe { kprobe_api_eight(a, b, c, d.as_char_ptr(), e, f, g, h) }
}

/// `depth`, by as many calls of itself.
pub(crate) fn depth(depth: i32) -> i32 {
    // SAFETY: The tests ask for a few only.
    unsafe { kprobe_api_depth(depth) }
}

/// A thread that calls [`next`] all the time, until this is dropped. One at a time.
pub(crate) struct Caller(());

impl Caller {
    pub(crate) fn start() -> Result<Self> {
        // SAFETY: Stopped by `drop()`.
        to_result(unsafe { kprobe_api_start_calling() })?;
        Ok(Self(()))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: Started by `start()`.
        unsafe { kprobe_api_stop_calling() };
    }
}

/// The functions above compute something else then, which the tests expect.
// SAFETY: Their arguments and values can be any numbers.
pub(crate) const ALTER: Alter = unsafe { Alter::new() };
