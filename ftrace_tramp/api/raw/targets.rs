// SPDX-License-Identifier: GPL-2.0

//! Functions of `test_targets.c`, for the tests to trace.

use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::prelude::*;

extern "C" {
    pub(crate) fn ftrace_api_next(value: c_int) -> c_int;
    fn ftrace_api_twice(value: c_int) -> c_int;
    fn ftrace_api_outer(value: c_int) -> c_int;
    fn ftrace_api_eight(
        a: c_int,
        b: u8,
        c: bool,
        d: *const c_char,
        e: i64,
        f: u16,
        g: c_long,
        h: c_long,
    ) -> c_long;
    fn ftrace_api_hidden(value: c_int) -> c_int;
    fn ftrace_api_start_calling() -> c_int;
    fn ftrace_api_stop_calling();
}

/// Returns `value + 1`.
pub(crate) fn next(value: i32) -> i32 {
    // SAFETY: The function takes any number and touches no memory.
    unsafe { ftrace_api_next(value) }
}

/// Returns the address of `next`.
pub(crate) fn next_address() -> usize {
    (ftrace_api_next as unsafe extern "C" fn(c_int) -> c_int as *const ()).addr()
}

/// Returns the address of `twice`.
pub(crate) fn twice_address() -> usize {
    (ftrace_api_twice as unsafe extern "C" fn(c_int) -> c_int as *const ()).addr()
}

/// Returns `value * 2`.
pub(crate) fn twice(value: i32) -> i32 {
    // SAFETY: The function takes any number and touches no memory.
    unsafe { ftrace_api_twice(value) }
}

/// Returns `value + 1`, by [`next`].
pub(crate) fn outer(value: i32) -> i32 {
    // SAFETY: The function takes any number and touches no memory.
    unsafe { ftrace_api_outer(value) }
}

/// Returns the sum of all arguments, with `d`'s first character.
#[expect(clippy::too_many_arguments)]
pub(crate) fn eight(a: i32, b: u8, c: bool, d: &CStr, e: i64, f: u16, g: isize, h: isize) -> isize {
    // SAFETY: The function reads the first byte of `d`, which a string has, and touches no other
    // memory.
    unsafe { ftrace_api_eight(a, b, c, d.as_char_ptr(), e, f, g, h) }
}

/// Returns `value - 1`. ftrace does not trace this function.
pub(crate) fn hidden(value: i32) -> i32 {
    // SAFETY: The function takes any number and touches no memory.
    unsafe { ftrace_api_hidden(value) }
}

/// Returns the address of `hidden`.
pub(crate) fn hidden_address() -> usize {
    (ftrace_api_hidden as unsafe extern "C" fn(c_int) -> c_int as *const ()).addr()
}

/// Two threads that call [`next`] in a loop until this is dropped. Only one instance at a time.
pub(crate) struct Callers(());

impl Callers {
    pub(crate) fn start() -> Result<Self> {
        // SAFETY: The function has no arguments; it fails if threads are already running.
        to_result(unsafe { ftrace_api_start_calling() })?;
        Ok(Self(()))
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        // SAFETY: `start()` has started the threads, and no other code stops them.
        unsafe { ftrace_api_stop_calling() };
    }
}
