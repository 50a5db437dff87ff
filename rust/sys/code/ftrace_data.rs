// SPDX-License-Identifier: GPL-2.0

//! Handlers at the places where ftrace patches the entry of functions, with data of each function.
//!
//! Contexts: switching in process context, sleeping; handlers wherever functions are called, NMI included.
//! Locks: those of `data.c` and of ftrace, `text_mutex` among them.

use core::cell::UnsafeCell;
use core::marker::PhantomData;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::code::regs::Regs;

/// What happens at a function's entry.
pub trait DataHandler: 'static {
    /// What a function has.
    type Data: Send + Sync + 'static;

    /// A function with its site at `ip` and this data is about to run.
    ///
    /// The registers are those in front of the site, but for R11, which no function gets anything in; changed ones take effect, `ip`
    /// too.
    /// A handler that calls a function that has it is called again: knowing that is up to it.
    fn call(ip: usize, data: &Self::Data, regs: &mut Regs);
}

/// A function, and its data.
#[repr(transparent)]
pub struct SiteData<T>(bindings::ftrace_data, PhantomData<*const T>);

impl<T> SiteData<T> {
    /// The site at `ip` with this data.
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

// SAFETY: Addresses; who uses what is there is the one that `FtraceData::add()` is promised something.
unsafe impl<T: Sync> Send for SiteData<T> {}

/// Functions at whose entries a handler is called, with their data.
///
/// # Invariants
///
/// A `static`. Its callback is [`shim`], and data is what [`Self::add`] was given.
pub struct FtraceData<H: DataHandler> {
    ops: UnsafeCell<bindings::ftrace_data_ops>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: `ops` is used by `data.c` only, which has locks of its own.
unsafe impl<H: DataHandler> Sync for FtraceData<H> {}

impl<H: DataHandler> FtraceData<H> {
    /// None yet.
    ///
    /// # Safety
    ///
    /// The handler leaves registers with which the function and its caller are as sound as they were, and at whose `ip` execution can
    /// go on. It does not sleep, and knows when it is called again by what it calls. If it is code of a module, [`Self::close`] has
    /// returned before the module goes, and each function that is added stays until it is removed.
    pub const unsafe fn new() -> Self {
        // SAFETY: A plain C structure, in which 0 and NULL are what C code leaves out.
        let mut ops: bindings::ftrace_data_ops = unsafe { core::mem::zeroed() };
        ops.func = Some(shim::<H>);
        ops.flags = bindings::FTRACE_OPS_FL_SAVE_REGS as c_ulong;
        // INVARIANT: Nothing has been added.
        Self {
            ops: UnsafeCell::new(ops),
            _handler: PhantomData,
        }
    }

    /// Has the handler called at some more sites: all or, when it fails, none.
    ///
    /// Errors: -EINVAL if there is no site; -EEXIST if one has been added; -ENOMEM; -ENODEV if ftrace has broken down.
    ///
    /// # Safety
    ///
    /// The data stays until a grace period of RCU tasks, a rude one too, is over that began after the site has been removed, or until
    /// [`Self::close`] has succeeded. If this fails nobody is called with it, but with -ENODEV, when it stays for ever.
    pub unsafe fn add(&'static self, sites: &[SiteData<H::Data>]) -> Result {
        let count = u32::try_from(sites.len()).map_err(|_| EINVAL)?;
        // SAFETY: `ops` is that of a static; the array is read only.
        to_result(unsafe {
            bindings::ftrace_data_attach(self.ops.get(), sites.as_ptr().cast(), count)
        })
    }

    /// Takes sites out. Errors: -ENOENT if one is not there, -ENOMEM; then all stay.
    ///
    /// The handler may still be called from a site that has been taken out, until a grace period of RCU tasks, and a rude one, has
    /// passed.
    pub fn remove(&'static self, ips: &[usize]) -> Result {
        let count = u32::try_from(ips.len()).map_err(|_| EINVAL)?;
        // SAFETY: `ops` is that of a static; the array is read only.
        to_result(unsafe {
            bindings::ftrace_data_detach_nowait(self.ops.get(), ips.as_ptr().cast(), count)
        })
    }

    /// If there are no sites, ftrace is to have it no longer. Waits as [`Self::close`].
    pub fn close_if_idle(&'static self) {
        // SAFETY: `ops` is that of a static. An error says that ftrace has broken down, and functions call what they call.
        let _ = unsafe { bindings::ftrace_data_release_idle(self.ops.get()) };
    }

    /// Takes all out. When this has succeeded no handler runs any more. Waits until every task has been somewhere else.
    ///
    /// Errors: -ENODEV if ftrace has broken down: functions may call the handler for ever.
    pub fn close(&'static self) -> Result {
        // SAFETY: `ops` is that of a static.
        to_result(unsafe { bindings::ftrace_data_release(self.ops.get()) })
    }
}

/// What ftrace's trampolines call.
///
/// # Safety
///
/// `data` is what [`FtraceData::add`] was given, and is still promised to be there. `fregs` are all registers at the entry of a
/// function, as `FTRACE_OPS_FL_SAVE_REGS` has them saved.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn shim<H: DataHandler>(
    ip: c_ulong,
    _parent_ip: c_ulong,
    data: *mut c_void,
    fregs: *mut bindings::ftrace_regs,
) {
    // SAFETY: The caller passes complete registers, which a `struct ftrace_regs` begins with (`ftrace.c` checks it); they are the
    // handler's until it returns.
    let regs = unsafe { Regs::at_site(fregs.cast()) };
    // SAFETY: The caller guarantees it.
    let data: &H::Data = unsafe { &*data.cast() };
    H::call(ip, data, regs);
}
