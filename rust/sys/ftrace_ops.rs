// SPDX-License-Identifier: GPL-2.0

//! Handlers at the places where ftrace patches the entry of functions.
//!
//! Contexts: switching in process context, sleeping; handlers wherever functions are called, NMI included.
//! Locks: one mutex for all `FtraceOps`, and inside of it those of ftrace, `text_mutex` among them.

use core::cell::UnsafeCell;
use core::marker::PhantomData;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

use crate::mutex::StaticMutex;
use crate::regs::Regs;

/// What happens at a function's entry.
pub trait FtraceHandler: 'static {
    /// A function with its site at `ip` is about to run, called from `parent_ip`.
    ///
    /// The registers are those in front of the site; changed ones take effect, `ip` only with [`FtraceOps::modifying`].
    /// A handler that calls a function of the set is called again: knowing that is up to it.
    fn call(ip: usize, parent_ip: usize, regs: &mut Regs);
}

/// A set of functions, at whose entries a handler is called.
///
/// # Invariants
///
/// A `static`. Its `ops` is registered if and only if `count` is not 0.
pub struct FtraceOps<H: FtraceHandler> {
    ops: UnsafeCell<bindings::ftrace_ops>,
    /// The number of functions; with the mutex held.
    count: UnsafeCell<usize>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: `count` is used with the mutex held, `ops` by ftrace, which has locks of its own.
unsafe impl<H: FtraceHandler> Sync for FtraceOps<H> {}

// SAFETY: A mutex of `ftrace.c` that protects nothing else.
static LOCK: StaticMutex<()> =
    unsafe { StaticMutex::new(&raw mut bindings::ferro_ftrace_ops_lock, ()) };

impl<H: FtraceHandler> FtraceOps<H> {
    /// For a handler that looks.
    pub const fn looking() -> Self {
        Self::new(bindings::FTRACE_OPS_FL_SAVE_REGS)
    }

    /// For a handler that may change where execution goes on. A function has at most one such user.
    pub const fn modifying() -> Self {
        Self::new(bindings::FTRACE_OPS_FL_SAVE_REGS | bindings::FTRACE_OPS_FL_IPMODIFY)
    }

    const fn new(flags: u32) -> Self {
        // SAFETY: A plain C structure, in which 0 and NULL are what C code leaves out.
        let mut ops: bindings::ftrace_ops = unsafe { core::mem::zeroed() };
        ops.func = Some(shim::<H>);
        ops.flags = flags as c_ulong;
        // INVARIANT: Not registered.
        Self {
            ops: UnsafeCell::new(ops),
            count: UnsafeCell::new(0),
            _handler: PhantomData,
        }
    }

    /// Has the handler called at some more sites: all or, when it fails, none.
    ///
    /// They are different, not in the set yet, and code that stays until they are taken out, which for a module's is
    /// in the notifier of its going at the latest.
    /// Errors: -EINVAL if there is no site; -EBUSY if somebody else modifies where it goes on; -ENOMEM; -ENODEV if
    /// ftrace has broken down.
    pub fn add(&'static self, ips: &[usize]) -> Result {
        if ips.is_empty() {
            return Ok(());
        }
        let lock = LOCK.lock();
        add(self.ops.get(), self.count.get(), ips, &lock)
    }

    /// Takes sites out of the set. Errors: -ENOENT if one is not in it, and then all stay.
    ///
    /// When this returns after the last one, no handler runs any more. Otherwise one may still run at a site that has
    /// been taken out, until a grace period of RCU has passed.
    pub fn remove(&'static self, ips: &[usize]) -> Result {
        if ips.is_empty() {
            return Ok(());
        }
        let lock = LOCK.lock();
        remove(self.ops.get(), self.count.get(), ips, &lock)
    }
}

type Held = crate::mutex::StaticGuard<()>;

/// Adds sites to, or removes them from, what `ops` is called at.
fn set(ops: *mut bindings::ftrace_ops, ips: &[usize], remove: bool) -> Result {
    let count = u32::try_from(ips.len()).map_err(|_| EINVAL)?;
    // SAFETY: `ops` is that of a static; ftrace only reads the addresses.
    to_result(unsafe {
        bindings::ftrace_set_filter_ips(ops, ips.as_ptr().cast_mut(), count, remove.into(), 0)
    })
}

fn add(ops: *mut bindings::ftrace_ops, count: *mut usize, ips: &[usize], _: &Held) -> Result {
    set(ops, ips, false)?;
    // SAFETY: The mutex is held.
    let count = unsafe { &mut *count };
    if *count == 0 {
        // SAFETY: `ops` is that of a static, and not registered.
        if let Err(error) = to_result(unsafe { bindings::register_ftrace_function(ops) }) {
            set(ops, ips, true)?;
            return Err(error);
        }
    }
    // INVARIANT: It is registered now.
    *count += ips.len();
    Ok(())
}

fn remove(ops: *mut bindings::ftrace_ops, count: *mut usize, ips: &[usize], _: &Held) -> Result {
    // SAFETY: The mutex is held.
    let count = unsafe { &mut *count };
    let left = count.checked_sub(ips.len()).ok_or(ENOENT)?;
    // An empty set would mean all functions: it is not registered when it becomes that.
    if left == 0 {
        // SAFETY: `ops` is that of a static, and registered, as `count` is not 0.
        to_result(unsafe { bindings::unregister_ftrace_function(ops) })?;
        // INVARIANT: It is not registered any more.
        *count = 0;
        return set(ops, ips, true);
    }
    set(ops, ips, true)?;
    *count = left;
    Ok(())
}

/// What ftrace calls.
///
/// # Safety
///
/// `fregs` are all registers at the entry of a function, as `FTRACE_OPS_FL_SAVE_REGS` has them saved.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn shim<H: FtraceHandler>(
    ip: c_ulong,
    parent_ip: c_ulong,
    _ops: *mut bindings::ftrace_ops,
    fregs: *mut bindings::ftrace_regs,
) {
    // SAFETY: By the rules of this function; `ftrace.c` knows that they are the registers.
    let regs = unsafe { Regs::at_site(fregs.cast()) };
    H::call(ip, parent_ip, regs);
}
