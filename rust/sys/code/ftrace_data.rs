// SPDX-License-Identifier: GPL-2.0

//! Handlers at ftrace sites of function entries, with data of each function.
//!
//! Contexts: process, sleeps, to attach and detach; handlers: the context of the function, NMI
//! included.
//! Locks: those of `data.c` and of ftrace, `text_mutex` among them.

use core::cell::UnsafeCell;
use core::marker::PhantomData;

use crate::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::code::regs::Regs;

/// Handler for a function's entry.
pub trait DataHandler: 'static {
    /// Data of a function.
    type Data: Send + Sync + 'static;

    /// Handles the entry of a function with this data and its site at `ip`.
    ///
    /// `regs` are the registers in front of the site, except R11, which passes nothing to a
    /// function. Changes take effect, including those of `ip`. A handler that calls a function of
    /// the set is called again, and has to detect this.
    fn call(ip: usize, data: &Self::Data, regs: &mut Regs);
}

/// A site with its data.
#[repr(transparent)]
pub struct SiteData<T>(bindings::ftrace_data, PhantomData<*const T>);

impl<T> SiteData<T> {
    /// Makes an entry for the site at `ip`.
    pub fn new(ip: usize, data: &T) -> Self {
        let data: *const T = data;
        Self(
            bindings::ftrace_data {
                ip: ip as c_ulong,
                data: data.cast_mut().cast(),
            },
            PhantomData,
        )
    }
}

// SAFETY: Addresses only; the promises for their use are made to `FtraceData::add()`.
unsafe impl<T: Sync> Send for SiteData<T> {}

/// Set of functions that call a handler at their entry, with their data.
///
/// # Invariants
///
/// A `static`. Its callback is [`shim`], and the data is from [`Self::add`].
pub struct FtraceData<H: DataHandler> {
    ops: UnsafeCell<bindings::ftrace_data_ops>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: Only `data.c` uses `ops`, with locks of its own.
unsafe impl<H: DataHandler> Sync for FtraceData<H> {}

impl<H: DataHandler> FtraceData<H> {
    /// Makes an empty set.
    ///
    /// # Safety
    ///
    /// The handler leaves the registers such that the function and its caller stay sound, and
    /// execution can continue at `ip`. It does not sleep, and detects recursion through its own
    /// calls. If it is in a module, [`Self::close`] has returned before the module is freed, and
    /// each added function exists until it is removed.
    pub const unsafe fn new() -> Self {
        // SAFETY: A plain C structure, in which 0 and NULL are valid defaults.
        let mut ops: bindings::ftrace_data_ops = unsafe { core::mem::zeroed() };
        ops.func = Some(shim::<H>);
        ops.flags = bindings::FTRACE_OPS_FL_SAVE_REGS as c_ulong;
        // INVARIANT: Nothing has been added.
        Self {
            ops: UnsafeCell::new(ops),
            _handler: PhantomData,
        }
    }

    /// Attaches the handler to more sites: to all of them or, on an error, to none.
    ///
    /// Errors: -EINVAL if an address is no site; -EEXIST if one has been added; -ENOMEM; -ENODEV if
    /// ftrace is disabled after a failure.
    ///
    /// # Safety
    ///
    /// The data exists until a grace period of RCU tasks and a rude one are over that began after
    /// the removal of the site, or until [`Self::close`] has succeeded. After an error no handler
    /// gets the data, except for -ENODEV: then the data stays valid permanently.
    pub unsafe fn add(&'static self, sites: &[SiteData<H::Data>]) -> Result {
        let count = u32::try_from(sites.len()).map_err(|_| EINVAL)?;
        // SAFETY: `ops` belongs to a static; the array is only read.
        to_result(unsafe {
            bindings::ftrace_data_attach(self.ops.get(), sites.as_ptr().cast(), count)
        })
    }

    /// Detaches sites. Errors: -ENOENT if one is not in the set, -ENOMEM; then all stay.
    ///
    /// The handler may still be called from a removed site until a grace period of RCU tasks, and a
    /// rude one, have passed.
    pub fn remove(&'static self, ips: &[usize]) -> Result {
        let count = u32::try_from(ips.len()).map_err(|_| EINVAL)?;
        // SAFETY: `ops` belongs to a static; the array is only read.
        to_result(unsafe {
            bindings::ftrace_data_detach_nowait(self.ops.get(), ips.as_ptr().cast(), count)
        })
    }

    /// Unregisters the set from ftrace if it has no sites. Waits as [`Self::close`] does.
    pub fn close_if_idle(&'static self) {
        // SAFETY: `ops` belongs to a static. An error means that ftrace is disabled, and sites keep
        // their calls.
        let _ = unsafe { bindings::ftrace_data_release_idle(self.ops.get()) };
    }

    /// Detaches all sites. After success no handler runs. Waits for all tasks.
    ///
    /// Errors: -ENODEV if ftrace is disabled: functions may call the handler permanently.
    pub fn close(&'static self) -> Result {
        // SAFETY: `ops` belongs to a static.
        to_result(unsafe { bindings::ftrace_data_release(self.ops.get()) })
    }
}

/// Callback for ftrace's trampolines.
///
/// # Safety
///
/// `data` was passed to [`FtraceData::add`], whose caller still guarantees it. `fregs` are all
/// registers at the entry of a function, as saved with `FTRACE_OPS_FL_SAVE_REGS`.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn shim<H: DataHandler>(
    ip: c_ulong,
    _parent_ip: c_ulong,
    data: *mut c_void,
    fregs: *mut bindings::ftrace_regs,
) {
    // SAFETY: The caller passes complete registers, at the start of a `struct ftrace_regs`
    // (`ftrace.c` checks this); the handler owns them until it returns.
    let regs = unsafe { Regs::at_site(fregs.cast()) };
    // SAFETY: The caller guarantees it.
    let data: &H::Data = unsafe { &*data.cast() };
    H::call(ip, data, regs);
}
