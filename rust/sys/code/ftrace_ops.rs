// SPDX-License-Identifier: GPL-2.0

//! Handlers at ftrace sites of function entries.
//!
//! Contexts: process, sleeps, to attach and detach; handlers: the context of the function, NMI
//! included.
//! Locks: one mutex for all `FtraceOps`, and inside of it those of ftrace, `text_mutex` among them.

use core::cell::UnsafeCell;
use core::marker::PhantomData;

use crate::bindings;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

use crate::code::regs::Regs;
use crate::static_mutex;
use crate::sync::mutex::StaticMutex;

/// Handler for a function's entry.
pub trait FtraceHandler: 'static {
    /// Handles the entry of a function with its site at `ip`, called from `parent_ip`.
    ///
    /// `regs` are the registers in front of the site. Changes take effect, including those of `ip`.
    /// A handler that calls a function of the set is called again, and has to detect this.
    fn call(ip: usize, parent_ip: usize, regs: &mut Regs);
}

/// Set of functions that call a handler at their entry.
///
/// # Invariants
///
/// A `static`. The filter of its `ops` has the added sites, those in `left` and, while it is
/// registered, the anchor of `ftrace.c`: an empty filter would match all functions.
pub struct FtraceOps<H: FtraceHandler> {
    ops: UnsafeCell<bindings::ftrace_ops>,
    sites: UnsafeCell<Sites>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: `with()` uses `sites` with the mutex held; ftrace uses `ops`, with locks of its own.
unsafe impl<H: FtraceHandler> Sync for FtraceOps<H> {}

static LOCK: StaticMutex<()> = static_mutex!(ferro_ftrace_ops_lock, ());

impl<H: FtraceHandler> FtraceOps<H> {
    /// Makes a set for a handler that may change registers. Other users may redirect the same
    /// functions.
    ///
    /// # Safety
    ///
    /// The handler leaves the registers such that the function and its caller stay sound, and
    /// execution can continue at `ip`. It does not sleep, and detects recursion through its own
    /// calls. If it is in a module, [`Self::close`] has returned before the module is freed (the
    /// module stays if ftrace has been disabled by a failure), and each added function exists until
    /// it is removed.
    pub const unsafe fn observing() -> Self {
        Self::new(bindings::FTRACE_OPS_FL_SAVE_REGS)
    }

    /// Makes a set for a handler that redirects execution. Ftrace allows at most one such user for
    /// a function.
    ///
    /// The anchor is such a function, so one of these sets is registered at a time, from its first
    /// site until it is closed. The kprobes engine has one while it has probes with handlers that
    /// divert, and a little longer. Other code that wants to divert uses a probe.
    ///
    /// # Safety
    ///
    /// As for [`FtraceOps::observing`].
    pub const unsafe fn modifying() -> Self {
        Self::new(bindings::FTRACE_OPS_FL_SAVE_REGS | bindings::FTRACE_OPS_FL_IPMODIFY)
    }

    const fn new(flags: u32) -> Self {
        // SAFETY: A plain C structure, in which 0 and NULL are valid defaults.
        let mut ops: bindings::ftrace_ops = unsafe { core::mem::zeroed() };
        ops.func = Some(shim::<H>);
        ops.flags = flags as c_ulong;
        // INVARIANT: Not registered, and nothing has been added.
        Self {
            ops: UnsafeCell::new(ops),
            sites: UnsafeCell::new(Sites {
                is_open: false,
                count: 0,
                left: KVVec::new(),
            }),
            _handler: PhantomData,
        }
    }

    fn with<R>(&'static self, f: impl FnOnce(&mut Open<'_>) -> R) -> R {
        let _lock = LOCK.lock();
        f(&mut Open {
            ops: self.ops.get(),
            // SAFETY: The mutex is held.
            sites: unsafe { &mut *self.sites.get() },
        })
    }

    /// Attaches the handler to more sites: to all of them or, on an error, to none.
    ///
    /// The sites are distinct and not in the set. Their code exists until they are removed, at the
    /// latest by the notifier of a module's unload. Errors: -EINVAL if an address is no site;
    /// -EBUSY if another user redirects the function or has such a set; -ENOMEM; -ENODEV if ftrace
    /// is disabled after a failure.
    pub fn add(&'static self, ips: &[usize]) -> Result {
        self.with(|open| open.add(ips))
    }

    /// Removes sites from the set. Errors: -ENOENT if one is not in it, -ENOMEM; then all stay.
    ///
    /// The handler may still run at a removed site until a grace period of RCU has passed.
    pub fn remove(&'static self, ips: &[usize]) -> Result {
        self.with(|open| open.remove(ips))
    }

    /// Removes sites for a caller that cannot handle an error. Without memory, the next change of
    /// the set retries the removal; the handler is called until then.
    pub fn abandon(&'static self, ips: &[usize]) {
        self.with(|open| open.abandon(ips));
    }

    /// Removes the sites that were abandoned and remain. Errors: -ENOMEM.
    pub fn sweep(&'static self) -> Result {
        self.with(|open| open.sweep())
    }

    /// Unregisters the set from ftrace if it has no sites. Waits as [`Self::close`] does.
    pub fn close_if_idle(&'static self) {
        self.with(|open| {
            if open.is_idle() {
                open.close();
            }
        });
    }

    /// Removes all sites. No handler runs when this returns. Waits for all tasks.
    pub fn close(&'static self) {
        self.with(|open| open.close());
    }
}

/// Sites of an `ftrace_ops`.
struct Sites {
    /// True if the ops are registered.
    is_open: bool,
    /// Number of sites in the set.
    count: usize,
    /// Sites that could not be removed. The vector has room for `count` more.
    left: KVVec<usize>,
}

/// An [`FtraceOps`], with the mutex held.
struct Open<'a> {
    ops: *mut bindings::ftrace_ops,
    sites: &'a mut Sites,
}

impl Open<'_> {
    /// Adds sites to the filter of `ops`, or removes them: all or none.
    fn set(&mut self, ips: &[usize], remove: bool) -> Result {
        let count = u32::try_from(ips.len()).map_err(|_| EINVAL)?;
        let ips = ips.as_ptr().cast_mut();
        // SAFETY: `ops` belongs to a static; ftrace only reads the addresses.
        to_result(unsafe {
            bindings::ftrace_set_filter_ips(self.ops, ips, count, remove.into(), 0)
        })
    }

    fn is_idle(&self) -> bool {
        self.sites.is_open && self.sites.count == 0 && self.sites.left.is_empty()
    }

    /// Registers `ops`. They stay registered after the last site is removed, because unregistering
    /// waits for all tasks, with the locks of ftrace held.
    fn open(&mut self) -> Result {
        if self.sites.is_open {
            return Ok(());
        }
        self.set(
            &[bindings::ferro_ftrace_anchor as *const () as usize],
            false,
        )?;
        // INVARIANT: The filter has the anchor.
        // SAFETY: `ops` belongs to a static, and is not registered.
        to_result(unsafe { bindings::register_ftrace_function(self.ops) })?;
        self.sites.is_open = true;
        Ok(())
    }

    fn add(&mut self, ips: &[usize]) -> Result {
        if ips.is_empty() {
            return Ok(());
        }
        self.sweep()?;
        let count = self.sites.count.saturating_add(ips.len());
        self.sites.left.reserve(count, GFP_KERNEL)?;
        self.open()?;
        self.set(ips, false)?;
        self.sites.count = count;
        Ok(())
    }

    fn remove(&mut self, ips: &[usize]) -> Result {
        if ips.is_empty() {
            return Ok(());
        }
        let count = self.sites.count.checked_sub(ips.len()).ok_or(ENOENT)?;
        self.set(ips, true)?;
        self.sites.count = count;
        // An error is harmless: the sites may stay longer.
        let _ = self.sweep();
        Ok(())
    }

    fn abandon(&mut self, ips: &[usize]) {
        if self.remove(ips).is_err() {
            self.sites.count = self.sites.count.saturating_sub(ips.len());
            for ip in ips {
                // `add()` has reserved the room.
                let _ = self.sites.left.push_within_capacity(*ip);
            }
        }
    }

    fn sweep(&mut self) -> Result {
        let (mut at, mut result) = (0, Ok(()));
        while let Some(ip) = self.sites.left.get(at).copied() {
            match self.set(&[ip], true) {
                Err(error) if error == ENOMEM => {
                    result = Err(error);
                    at += 1;
                }
                // The site was freed with its module, but is still listed: another function may be
                // loaded at the address.
                Err(error) if error == EINVAL => at += 1,
                _ => drop(self.sites.left.remove(at)),
            }
        }
        result
    }

    fn close(&mut self) {
        if !self.sites.is_open {
            return;
        }
        // SAFETY: `ops` belongs to a static, and is registered. If ftrace is disabled, functions
        // may still call the handler: its code is not freed then (`FtraceOps::modifying()`).
        if unsafe { bindings::unregister_ftrace_function(self.ops) } == 0 {
            // SAFETY: The ops are not registered.
            unsafe { bindings::ftrace_free_filter(self.ops) };
        }
        // INVARIANT: The set is empty.
        *self.sites = Sites {
            is_open: false,
            count: 0,
            left: KVVec::new(),
        };
    }
}

/// Callback for ftrace.
///
/// # Safety
///
/// `fregs` are all registers at the entry of a function, as saved with `FTRACE_OPS_FL_SAVE_REGS`.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn shim<H: FtraceHandler>(
    ip: c_ulong,
    parent_ip: c_ulong,
    _ops: *mut bindings::ftrace_ops,
    fregs: *mut bindings::ftrace_regs,
) {
    // SAFETY: The caller, ftrace, passes complete registers, at the start of a `struct ftrace_regs`
    // (`ftrace.c` checks this); the handler owns them until it returns.
    let regs = unsafe { Regs::at_site(fregs.cast()) };
    H::call(ip, parent_ip, regs);
}
