// SPDX-License-Identifier: GPL-2.0

//! Taking objects over from whoever has them, and giving them back.
//!
//! Contexts: process, sleeps; what is called has the lock that constructors take.

use kernel::bindings;
use kernel::prelude::*;

use super::hooks::Exits;
use super::object::Candidate;
use super::object::Loaded;
use super::owner;
use super::owner::ModuleId;

/// Who takes over.
pub(crate) trait Taker {
    /// An object that is there. Whether it is taken.
    fn object(object: Candidate) -> bool;

    /// A module goes, whose objects may have been taken since the exit heard of it.
    fn gone(module: ModuleId);

    /// What was kept of objects that have gone: the contents of the file of this name.
    fn kept(filename: &[u8], gcda: &[u8]);

    /// The next object to give back.
    fn next() -> Option<Loaded>;
}

/// Lets a taker have all objects that are there, and what was kept of others. The exits see to it that it gets the later ones.
pub(crate) fn hand_over<T: Taker>(_exits: &Exits) {
    let taker = bindings::gcov_taker {
        object: Some(object::<T>),
        kept: Some(kept::<T>),
    };
    // SAFETY: The functions are what `gcov_taker` asks for; it is used during this call only, which sleeps as this may.
    unsafe { bindings::ferro_gcov_hand_over(&raw const taker) };
}

/// Gives back all that [`Taker::next`] gives, but for what has gone.
pub(crate) fn take_back<T: Taker>() {
    #[cfg(MODULE)]
    // SAFETY: The function is what it asks for, and is called during this call only, which sleeps as this may.
    unsafe {
        bindings::ferro_gcov_take_back(Some(next::<T>))
    };
}

/// Where the kernel was built, with a slash at its end.
pub(crate) fn object_tree() -> &'static [u8] {
    // SAFETY: `builtin.c` has the string, which stays as it is.
    unsafe { CStr::from_char_ptr((&raw const bindings::ferro_gcov_object_tree).cast()) }.to_bytes()
}

/// Whether the command line says to keep what modules that go have counted.
pub(crate) fn persists() -> bool {
    // SAFETY: Reads a variable.
    unsafe { bindings::ferro_gcov_persist() }
}

/// # Safety
///
/// `object` is valid, and its module stays during the call.
unsafe extern "C" fn object<T: Taker>(object: *const bindings::gcov_object) -> bool {
    // SAFETY: By the rules of this function. Who is handed over to has shown the exits, which are armed. If the exit may have been called
    // before, `is_going()` says so below: its module stays until this returns.
    let arrived = match unsafe { Candidate::new(*object) } {
        Ok(arrived) => arrived,
        Err(error) => {
            pr_warn!("an object is not taken: error {}\n", error.to_errno());
            return false;
        }
    };
    let (module, address) = (arrived.module(), arrived.address());
    let taken = T::object(arrived);
    if let Some(module) = module.filter(|_| owner::is_going(address)) {
        T::gone(module);
        owner::close(module);
    }
    taken
}

/// # Safety
///
/// `filename` is a string, and there are `size` bytes at `gcda`; both stay during the call.
unsafe extern "C" fn kept<T: Taker>(
    filename: *const kernel::ffi::c_char,
    gcda: *const kernel::ffi::c_void,
    size: usize,
) {
    // SAFETY: By the rules of this function.
    let filename = unsafe { CStr::from_char_ptr(filename) };
    // SAFETY: By the rules of this function; nobody changes them.
    let gcda = unsafe { core::slice::from_raw_parts(gcda.cast::<u8>(), size) };
    T::kept(filename.to_bytes(), gcda);
}

/// # Safety
///
/// `object` can be written.
#[cfg(MODULE)]
unsafe extern "C" fn next<T: Taker>(object: *mut bindings::gcov_object) -> bool {
    while let Some(next) = T::next() {
        // None for Rust code. If its home is closed its module may be gone. If it is not, those who get it will see the module go: that takes the lock
        // with which this is called.
        if let Some(origin) = next.origin() {
            // SAFETY: By the rules of this function.
            unsafe { *object = origin };
            return true;
        }
    }
    false
}
