// SPDX-License-Identifier: GPL-2.0

//! Description of an LLVM object, as its callback reports it.
//!
//! Contexts: process; sleeps.

use ferro_gcov_core::Identity;
use ferro_gcov_core::LlvmFunction;
use ferro_sys::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_void;
use kernel::prelude::*;

/// Description of an object.
#[derive(Default)]
pub(super) struct Description {
    /// Address of the name; 0 if the object reported none.
    pub(super) name: u64,
    pub(super) version: u32,
    pub(super) checksum: u32,
    pub(super) functions: KVVec<LlvmFunction>,
    /// Memory ran out before all functions were recorded.
    no_memory: bool,
}

impl Description {
    /// Calls an object's `writeout` and records its report. Errors: -ENOMEM.
    ///
    /// # Safety
    ///
    /// `writeout` is the callback that an object's constructor has passed, and its module stays
    /// during the call.
    pub(super) unsafe fn of(writeout: bindings::gcov_llvm_callback) -> Result<Self> {
        static LISTENER: bindings::ferro_gcov_listener = bindings::ferro_gcov_listener {
            file: Some(file),
            function: Some(function),
            arcs: Some(arcs),
        };
        let mut new = Self::default();
        // SAFETY: The callback calls the functions of the runtime, and these call the listener with
        // a pointer to `new`, which stays during the call and has no other user until it ends.
        unsafe {
            bindings::ferro_gcov_describe(writeout, &raw const LISTENER, (&raw mut new).cast())
        };
        match new.no_memory {
            true => Err(ENOMEM),
            false => Ok(new),
        }
    }
}

/// # Safety
///
/// `data` is the pointer that [`Description::of`] has passed, during its call.
unsafe extern "C" fn file(data: *mut c_void, name: *const c_char, version: u32, checksum: u32) {
    // SAFETY: By the rules of this function; there is no other user of it at this time.
    let new = unsafe { &mut *data.cast::<Description>() };
    new.name = name.addr() as u64;
    new.version = version;
    new.checksum = checksum;
}

/// # Safety
///
/// As for [`file`].
unsafe extern "C" fn function(data: *mut c_void, ident: u32, lines: u32, control_flow: u32) {
    // SAFETY: By the rules of this function; there is no other user of it at this time.
    let new = unsafe { &mut *data.cast::<Description>() };
    let function = LlvmFunction {
        identity: Identity {
            ident,
            lineno_checksum: lines,
            cfg_checksum: control_flow,
        },
        count: 0,
        address: 0,
    };
    new.no_memory |= new.functions.push(function, GFP_KERNEL).is_err();
}

/// # Safety
///
/// As for [`file`].
unsafe extern "C" fn arcs(data: *mut c_void, count: u32, counters: *mut u64) {
    // SAFETY: By the rules of this function; there is no other user of it at this time.
    let new = unsafe { &mut *data.cast::<Description>() };
    if let Some(function) = new.functions.last_mut() {
        function.count = count;
        function.address = counters.addr() as u64;
    }
}
