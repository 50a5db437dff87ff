// SPDX-License-Identifier: GPL-2.0

//! Functions of `test_targets.c`, for the tests to probe.

use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::prelude::*;

use super::permissions::Alter;
use super::permissions::Untraceable;

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

/// Returns `a + b`: three bytes that move `a` to ax, three that add `b`, and a return.
pub(crate) fn add(a: usize, b: usize) -> usize {
    // SAFETY: The function takes any numbers and touches no memory.
    unsafe { kprobe_api_add(a, b) }
}

/// Returns `value + 1`.
pub(crate) fn next(value: i32) -> i32 {
    // SAFETY: The function takes any number and touches no memory.
    unsafe { kprobe_api_next(value) }
}

/// Returns the sum of all arguments, with `d`'s first character.
#[expect(clippy::too_many_arguments)]
pub(crate) fn eight(a: i32, b: u8, c: bool, d: &CStr, e: i64, f: u16, g: isize, h: isize) -> isize {
    // SAFETY: The function reads the first byte of `d`, which a string has, and touches no other
    // memory.
    unsafe { kprobe_api_eight(a, b, c, d.as_char_ptr(), e, f, g, h) }
}

/// Returns `depth` after as many calls of itself, at most 100.
pub(crate) fn depth(depth: i32) -> i32 {
    // SAFETY: For a hundred calls of a function with one local variable any stack of the kernel has
    // room.
    unsafe { kprobe_api_depth(depth.min(100)) }
}

/// Thread that calls [`next`] in a loop until this is dropped. Only one instance at a time.
pub(crate) struct Caller(());

impl Caller {
    pub(crate) fn start() -> Result<Self> {
        // SAFETY: The function has no arguments; it fails if a thread is already running.
        to_result(unsafe { kprobe_api_start_calling() })?;
        Ok(Self(()))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: `start()` has started the thread, and no other code stops it.
        unsafe { kprobe_api_stop_calling() };
    }
}

/// Permission to change the functions above; the tests expect their changed results.
// SAFETY: The tests change only arguments and values of these functions, which can be any numbers,
// and addresses only to a return.
pub(crate) const ALTER: Alter = unsafe { Alter::new() };

/// Permission for [`add`], which is assembly without an ftrace site.
// SAFETY: The tests use it for that function, which only they call.
pub(crate) const UNTRACEABLE: Untraceable = unsafe { Untraceable::new() };
