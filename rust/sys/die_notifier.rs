// SPDX-License-Identifier: GPL-2.0

//! Being told of traps in the kernel that have no hook point: `register_die_notifier()`.
//!
//! Contexts: registering in process context, sleeps; handlers in the trap.

use core::marker::PhantomData;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::regs::Regs;

/// What happens at a trap.
pub trait TrapHandler: 'static {
    /// Kernel code has trapped. Whether that is dealt with; otherwise the kernel goes on, with the registers as they
    /// are now.
    ///
    /// `trapnr` is the number of the exception. Context: as the trap's, interrupts may be on.
    fn trap(regs: &mut Regs, trapnr: usize) -> bool;
}

/// A handler that is called. Dropping it waits until nobody is in it.
///
/// # Invariants
///
/// The block is registered, and stays where it is.
pub struct DieNotifier<H: TrapHandler> {
    block: KBox<Opaque<bindings::notifier_block>>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: The kernel's list of these has a lock.
unsafe impl<H: TrapHandler> Send for DieNotifier<H> {}
// SAFETY: As above.
unsafe impl<H: TrapHandler> Sync for DieNotifier<H> {}

impl<H: TrapHandler> DieNotifier<H> {
    /// Context: process; sleeps. Errors: -ENOMEM.
    pub fn new() -> Result<Self> {
        let block = KBox::new(Opaque::<bindings::notifier_block>::zeroed(), GFP_KERNEL)?;
        // SAFETY: Ours; it stays in its memory until `drop()` has unregistered it.
        unsafe {
            (*block.get()).notifier_call = Some(notified::<H>);
            to_result(bindings::register_die_notifier(block.get()))?;
        }
        // INVARIANT: Just registered.
        Ok(Self {
            block,
            _handler: PhantomData,
        })
    }
}

impl<H: TrapHandler> Drop for DieNotifier<H> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
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
    let args: *mut bindings::die_args = args.cast();
    if reason != bindings::die_val_DIE_TRAP as c_ulong {
        return bindings::NOTIFY_DONE as c_int;
    }
    // SAFETY: By the rules of this function; the registers are this trap's.
    let (regs, trapnr) = unsafe { (Regs::of((*args).regs), (*args).trapnr) };
    let dealt_with = regs.is_some_and(|regs| H::trap(regs, trapnr as usize));
    match dealt_with {
        true => bindings::NOTIFY_STOP as c_int,
        false => bindings::NOTIFY_DONE as c_int,
    }
}
