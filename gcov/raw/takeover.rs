// SPDX-License-Identifier: GPL-2.0

//! Takes objects over from the previous exporter and gives them back.
//!
//! Contexts: process, sleeps; the callbacks hold the lock that constructors take.

use ferro_sys::bindings;
use kernel::prelude::*;

use super::hooks::Exits;
use super::object::Candidate;
use super::object::Object;
use super::owner;
use super::owner::ModuleId;

/// Receiver of the objects.
pub(crate) trait Receiver {
    /// Offers an existing object. Returns true if the engine takes it.
    fn object(object: Candidate) -> bool;

    /// Removes the objects of a module being unloaded. The exit may have run before the engine took
    /// them.
    fn module_going(module: ModuleId);

    /// Keeps the contents of the file `filename`; its objects were unloaded.
    fn kept(filename: &[u8], gcda: &[u8]);

    /// Returns the next object to give back.
    fn next() -> Option<Object>;
}

/// Offers the receiver all existing objects, and the kept contents of unloaded ones. The exits
/// offer later objects.
pub(crate) fn take_over<T: Receiver>(_exits: &Exits) {
    let taker = bindings::gcov_taker {
        object: Some(object::<T>),
        kept: Some(kept::<T>),
    };
    // SAFETY: The functions have the types and rules of `gcov_taker`; it is used during this call
    // only, which sleeps as this may.
    unsafe { bindings::ferro_gcov_hand_over(&raw const taker) };
}

/// Gives back all objects that [`Receiver::next`] returns, except those already unloaded.
pub(crate) fn give_back<T: Receiver>() {
    #[cfg(MODULE)]
    // SAFETY: The function has the type and rules that it asks for, and is called during this call
    // only, which sleeps as this may.
    unsafe {
        bindings::ferro_gcov_take_back(Some(next::<T>))
    };
}

/// Returns the kernel's build directory, with a slash at its end.
pub(crate) fn object_tree() -> &'static [u8] {
    // SAFETY: `builtin.c` has the string, which is constant.
    unsafe { CStr::from_char_ptr((&raw const bindings::ferro_gcov_object_tree).cast()) }.to_bytes()
}

/// Returns true if the command line asks to keep the counters of unloaded modules.
pub(crate) fn persists() -> bool {
    // SAFETY: No requirement. The function reads a variable.
    unsafe { bindings::ferro_gcov_persist() }
}

/// # Safety
///
/// `object` is valid, and its module stays during the call.
unsafe extern "C" fn object<T: Receiver>(object: *const bindings::gcov_object) -> bool {
    // SAFETY: By the rules of this function. The caller of `take_over()` has passed the exits,
    // which are armed. If the exit may have run for the module before, `is_going()` is true below,
    // and the module stays until this returns.
    let candidate = match unsafe { Candidate::new(*object) } {
        Ok(candidate) => candidate,
        Err(error) => {
            pr_warn!("an object is not taken: error {}\n", error.to_errno());
            return false;
        }
    };
    let (module, address) = (candidate.module(), candidate.address());
    let taken = T::object(candidate);
    if let Some(module) = module.filter(|_| owner::is_going(address)) {
        T::module_going(module);
        owner::close(module);
    }
    taken
}

/// # Safety
///
/// `filename` is a string, and there are `size` bytes at `gcda`; both stay during the call.
unsafe extern "C" fn kept<T: Receiver>(
    filename: *const kernel::ffi::c_char,
    gcda: *const kernel::ffi::c_void,
    size: usize,
) {
    // SAFETY: By the rules of this function.
    let filename = unsafe { CStr::from_char_ptr(filename) };
    // SAFETY: By the rules of this function; the bytes do not change.
    let gcda = unsafe { core::slice::from_raw_parts(gcda.cast::<u8>(), size) };
    T::kept(filename.to_bytes(), gcda);
}

/// # Safety
///
/// `object` can be written.
#[cfg(MODULE)]
unsafe extern "C" fn next<T: Receiver>(object: *mut bindings::gcov_object) -> bool {
    while let Some(next) = T::next() {
        // `None` for Rust code, and for an object of a closed owner, as its module may be freed. If
        // the owner is open, the next exporter sees the module's unloading: it takes the lock that
        // this callback holds.
        if let Some(args) = next.constructor_args() {
            // SAFETY: By the rules of this function.
            unsafe { *object = args };
            return true;
        }
    }
    false
}
