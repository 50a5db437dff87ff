// SPDX-License-Identifier: GPL-2.0

//! Die notifier, for events without a hook point: divide errors of the kernel, and an oops.
//! `register_die_notifier()`.
//!
//! Contexts: registering in process context, sleeps; the handler in the trap.

use core::marker::PhantomData;

use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::trap_hooks::TrapHandler;

/// Number of the exception.
const DIVIDE_ERROR: c_int = 0;

/// A registered die notifier. Dropping it waits for running handlers.
///
/// # Invariants
///
/// The block is registered, and stays in its place.
pub(crate) struct DieNotifier<H: TrapHandler> {
    block: KBox<Opaque<bindings::notifier_block>>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: Any thread may unregister it, also another than the one that registered it: the kernel's
// list of notifiers has a lock.
unsafe impl<H: TrapHandler> Send for DieNotifier<H> {}
// SAFETY: A shared reference has no methods.
unsafe impl<H: TrapHandler> Sync for DieNotifier<H> {}

impl<H: TrapHandler> DieNotifier<H> {
    /// Registers it. Context: process; sleeps. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let block = KBox::new(Opaque::<bindings::notifier_block>::zeroed(), GFP_KERNEL)?;
        // SAFETY: Just made, and exclusive to this function.
        unsafe { (*block.get()).notifier_call = Some(notified::<H>) };
        // SAFETY: It stays in its box until `drop()` has unregistered it, and the function is one
        // of this type.
        to_result(unsafe { bindings::register_die_notifier(block.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self {
            block,
            _handler: PhantomData,
        })
    }
}

impl<H: TrapHandler> Drop for DieNotifier<H> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant.
        unsafe { bindings::unregister_die_notifier(self.block.get()) };
    }
}

/// # Safety
///
/// `args` is a `struct die_args`.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn notified<H: TrapHandler>(
    _block: *mut bindings::notifier_block,
    reason: c_ulong,
    args: *mut c_void,
) -> c_int {
    const TRAP: c_ulong = bindings::die_val_DIE_TRAP as c_ulong;
    const OOPS: c_ulong = bindings::die_val_DIE_OOPS as c_ulong;
    let args: *mut bindings::die_args = args.cast();
    // SAFETY: The caller guarantees a `struct die_args`.
    let (regs, trapnr) = unsafe { ((*args).regs, (*args).trapnr) };
    if regs.is_null() {
        return bindings::NOTIFY_DONE as c_int;
    }
    // SAFETY: Not NULL. Notifiers get the registers of the trap, which are theirs until they
    // return.
    let regs = unsafe { Regs::from_raw(regs) };
    let done = match (reason, regs) {
        (TRAP, Some(regs)) => trapnr == DIVIDE_ERROR && H::fault(regs, DIVIDE_ERROR as usize),
        (OOPS, Some(regs)) => {
            H::died(regs);
            false
        }
        _ => false,
    };
    match done {
        true => bindings::NOTIFY_STOP as c_int,
        false => bindings::NOTIFY_DONE as c_int,
    }
}
