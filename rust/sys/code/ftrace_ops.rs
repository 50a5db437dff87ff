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

use crate::code::regs::Regs;
use crate::sync::mutex::StaticMutex;

/// What happens at a function's entry.
pub trait FtraceHandler: 'static {
    /// A function with its site at `ip` is about to run, called from `parent_ip`.
    ///
    /// The registers are those in front of the site; changed ones take effect, `ip` too.
    /// A handler that calls a function of the set is called again: knowing that is up to it.
    fn call(ip: usize, parent_ip: usize, regs: &mut Regs);
}

/// A set of functions, at whose entries a handler is called.
///
/// # Invariants
///
/// A `static`. What its `ops` is called at are the sites that have been added, those in `left` and, if it is registered,
/// the anchor of `ftrace.c`: an empty set would be all functions.
pub struct FtraceOps<H: FtraceHandler> {
    ops: UnsafeCell<bindings::ftrace_ops>,
    sites: UnsafeCell<Sites>,
    _handler: PhantomData<fn(H)>,
}

// SAFETY: `with()` uses `sites` with the mutex held; `ops` is ftrace's, which has locks of its own.
unsafe impl<H: FtraceHandler> Sync for FtraceOps<H> {}

// SAFETY: `ftrace.c` has the mutex, made by `DEFINE_MUTEX()` for this.
static LOCK: StaticMutex<()> =
    unsafe { StaticMutex::new(&raw mut bindings::ferro_ftrace_ops_lock, ()) };

impl<H: FtraceHandler> FtraceOps<H> {
    /// For a handler that may change registers. Others may change where execution goes on at the same functions.
    ///
    /// # Safety
    ///
    /// The handler leaves registers with which the function and its caller are as sound as they were, and at whose `ip`
    /// execution can go on. It does not sleep, and knows when it is called again by what it calls. If it is code of a module,
    /// [`Self::close`] has returned before the module goes, which it does not do once ftrace has broken down, and each function that is
    /// added stays until it is taken out.
    pub const unsafe fn observing() -> Self {
        Self::new(bindings::FTRACE_OPS_FL_SAVE_REGS)
    }

    /// For a handler that changes where execution goes on: a function has at most one such user, which ftrace sees to.
    ///
    /// The anchor is such a function: one of these sets is registered at a time, from its first site on until it is closed.
    /// The kprobes engine has one while it has probes whose handlers divert, and a little longer; what wants to divert as well is a probe.
    ///
    /// # Safety
    ///
    /// As for [`FtraceOps::observing`].
    pub const unsafe fn modifying() -> Self {
        Self::new(bindings::FTRACE_OPS_FL_SAVE_REGS | bindings::FTRACE_OPS_FL_IPMODIFY)
    }

    const fn new(flags: u32) -> Self {
        // SAFETY: A plain C structure, in which 0 and NULL are what C code leaves out.
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

    /// Has the handler called at some more sites: all or, when it fails, none.
    ///
    /// They are different, not in the set yet, and code that stays until they are taken out, which for a module's is
    /// in the notifier of its going at the latest.
    /// Errors: -EINVAL if there is no site; -EBUSY if somebody else modifies where it goes on, or has such a set; -ENOMEM; -ENODEV if
    /// ftrace has broken down.
    pub fn add(&'static self, ips: &[usize]) -> Result {
        self.with(|open| open.add(ips))
    }

    /// Takes sites out of the set. Errors: -ENOENT if one is not in it, -ENOMEM; then all stay.
    ///
    /// The handler may still run at a site that has been taken out, until a grace period of RCU has passed.
    pub fn remove(&'static self, ips: &[usize]) -> Result {
        self.with(|open| open.remove(ips))
    }

    /// The same, for a caller that has no use for an error: without memory for it the handler is called there until there is some, at
    /// the next change of the set.
    pub fn abandon(&'static self, ips: &[usize]) {
        self.with(|open| open.abandon(ips));
    }

    /// Takes out what was abandoned and is still there. Errors: -ENOMEM.
    pub fn sweep(&'static self) -> Result {
        self.with(|open| open.sweep())
    }

    /// If it has no sites, ftrace is to have it no longer. Waits as [`Self::close`].
    pub fn close_if_idle(&'static self) {
        self.with(|open| {
            if open.is_idle() {
                open.close();
            }
        });
    }

    /// Takes all out. When this returns, no handler runs any more. Waits until every task has been somewhere else.
    pub fn close(&'static self) {
        self.with(|open| open.close());
    }
}

/// What an `ftrace_ops` is called at.
struct Sites {
    /// It is registered.
    is_open: bool,
    /// How many have been added, and not taken out.
    count: usize,
    /// Those that could not be taken out. There is room for `count` more.
    left: KVVec<usize>,
}

/// An [`FtraceOps`], with the mutex held.
struct Open<'a> {
    ops: *mut bindings::ftrace_ops,
    sites: &'a mut Sites,
}

impl Open<'_> {
    /// Adds sites to, or removes them from, what `ops` is called at: all or none.
    fn set(&mut self, ips: &[usize], remove: bool) -> Result {
        let count = u32::try_from(ips.len()).map_err(|_| EINVAL)?;
        let ips = ips.as_ptr().cast_mut();
        // SAFETY: `ops` is that of a static; ftrace only reads the addresses.
        to_result(unsafe {
            bindings::ftrace_set_filter_ips(self.ops, ips, count, remove.into(), 0)
        })
    }

    fn is_idle(&self) -> bool {
        self.sites.is_open && self.sites.count == 0 && self.sites.left.is_empty()
    }

    /// Registers `ops`. It stays registered when the last site goes, since the end of that waits for all tasks, with the locks of
    /// ftrace held.
    fn open(&mut self) -> Result {
        if self.sites.is_open {
            return Ok(());
        }
        self.set(
            &[bindings::ferro_ftrace_anchor as *const () as usize],
            false,
        )?;
        // INVARIANT: With the anchor.
        // SAFETY: `ops` is that of a static, and not registered.
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
        // They may stay longer.
        let _ = self.sweep();
        Ok(())
    }

    fn abandon(&mut self, ips: &[usize]) {
        if self.remove(ips).is_err() {
            self.sites.count = self.sites.count.saturating_sub(ips.len());
            for ip in ips {
                // There is room since they were added.
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
                // It has gone with its module, and is in the set: another function may come to lie there.
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
        // SAFETY: `ops` is that of a static, and registered. If ftrace has broken down functions may still call the handler: its code
        // does not go then (`FtraceOps::modifying()`).
        if unsafe { bindings::unregister_ftrace_function(self.ops) } == 0 {
            // SAFETY: It is not registered any more.
            unsafe { bindings::ftrace_free_filter(self.ops) };
        }
        // INVARIANT: There is nothing any more.
        *self.sites = Sites {
            is_open: false,
            count: 0,
            left: KVVec::new(),
        };
    }
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
    // SAFETY: The caller, ftrace, passes complete registers, which a `struct ftrace_regs` begins with (`ftrace.c` checks it);
    // they are the handler's until it returns.
    let regs = unsafe { Regs::at_site(fregs.cast()) };
    H::call(ip, parent_ip, regs);
}
