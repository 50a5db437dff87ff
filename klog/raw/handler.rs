// SPDX-License-Identifier: GPL-2.0

//! Current handler: a function of C or Rust code, which may be in a module.
//!
//! A handler is called with interrupts off, while RCU is watching. Its run is an RCU read-side
//! critical section, so a grace period waits for all running handlers.
//!
//! Contexts: logging and [`is_active`] any, NMI included; changing the handler: process.

use ferro_sys::bindings;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu::synchronize_rcu;

/// Reason why a handler was not made the current one.
pub(crate) enum NotSet {
    /// Its module is being unloaded.
    ModuleGoes,
    /// There is another handler.
    Occupied,
}

/// Type of the function in `struct klog_operations`.
pub(crate) type KlogFn = unsafe extern "C" fn(*const c_void, c_int);

/// Function of the current handler, or NULL. The exchange is fully ordered, and pairs with the
/// acquire in [`log`]: the handler sees all stores made before its registration.
static HANDLER: Atomic<*mut c_void> = Atomic::new(core::ptr::null_mut());

/// Mutex held while the handler changes. Has the number of the newest [`Owner`].
static LAST_OWNER: StaticMutex<u64> = static_mutex!(klog_rust_mutex, NO_OWNER);

/// Owner of the current handler. Changes with [`HANDLER`], under the lock.
///
/// Needed as the function does not identify the owner: owners with the same handler type have the
/// same function.
static OWNER: Atomic<u64> = Atomic::new(NO_OWNER);

/// Number for no handler, or a handler registered in C.
const NO_OWNER: u64 = 0;

/// Returns true if there is a handler.
#[inline]
pub(crate) fn is_active() -> bool {
    !HANDLER.load(Relaxed).is_null()
}

/// Passes a message to the current handler.
///
/// # Safety
///
/// If `len` is positive and `data` is not NULL, `len` bytes at `data` can be read and do not change
/// during the call.
#[inline(always)]
pub(crate) unsafe fn log(data: *const c_void, len: c_int) {
    if len <= 0 || data.is_null() || !is_active() {
        return;
    }
    with_irqs_off(|_| {
        // SAFETY: The call requires interrupts to be off, which they are in this closure. It
        // requires a call of `ferro_klog_exit()` on this CPU, which follows below.
        if !unsafe { bindings::ferro_klog_enter() } {
            return;
        }
        let handler = HANDLER.load(Acquire);
        if !handler.is_null() {
            // SAFETY: Only `address()` makes these pointers, from functions of this type. A
            // function that was taken out of HANDLER is released only after a grace period.
            // `ferro_klog_enter()` has found that RCU watches: with interrupts off, such a period
            // cannot end before this closure does. The bytes are readable by the rules of this
            // function.
            unsafe {
                let handler = core::mem::transmute::<*mut c_void, KlogFn>(handler);
                handler(data, len);
            }
        }
        // SAFETY: Pairs with the entry: interrupts have been off since, so this is the same CPU.
        unsafe { bindings::ferro_klog_exit() };
    });
}

/// Logs raw data, as `klog()` does in C. Context: any.
pub fn write(data: &[u8]) {
    let len = c_int::try_from(data.len()).unwrap_or(c_int::MAX);
    // SAFETY: `len` is at most the length of the slice. Its bytes are readable and do not change
    // during the borrow.
    unsafe { log(data.as_ptr().cast(), len) };
}

fn address(function: Option<KlogFn>) -> *mut c_void {
    function.map_or(core::ptr::null_mut(), |function| {
        function as *const () as *mut c_void
    })
}

/// Makes a C function the current handler, replacing the previous one; `None` only removes the
/// previous one.
///
/// # Safety
///
/// The function keeps the rules of `struct klog_operations`. It stays until it has been removed and
/// a grace period has passed, or until its module is unloaded.
pub(crate) unsafe fn set(function: Option<KlogFn>) -> Result<(), NotSet> {
    // SAFETY: By the rules of this function.
    unsafe { set_owned(function, NO_OWNER) }
}

/// Makes a function the current handler of an owner, as [`set`] does. Errors:
/// [`NotSet::ModuleGoes`].
///
/// # Safety
///
/// The rules of [`set`] apply.
unsafe fn set_owned(function: Option<KlogFn>, owner: u64) -> Result<(), NotSet> {
    let new = address(function);
    let lock = LAST_OWNER.lock();
    if is_going(new.addr()) {
        return Err(NotSet::ModuleGoes);
    }
    OWNER.store(owner, Relaxed);
    let old = HANDLER.xchg(new, Full);
    drop(lock);
    if !old.is_null() && old != new {
        synchronize_rcu();
    }
    Ok(())
}

/// Removes the current handler, regardless of its owner, and waits until no CPU executes it.
pub(crate) fn clear() {
    let lock = LAST_OWNER.lock();
    clear_locked();
    drop(lock);
    // Waits even if there was none: another task may have removed the handler and not waited yet.
    synchronize_rcu();
}

/// Removes the handler if its code is in a module about to be unloaded, and waits until no CPU
/// executes it. Returns true if it was in the module.
pub(crate) fn clear_for_module(module: &Module) -> bool {
    let lock = LAST_OWNER.lock();
    let is_left = module.contains(HANDLER.load(Relaxed).addr());
    if is_left {
        clear_locked();
    }
    drop(lock);
    if is_left {
        synchronize_rcu();
    }
    is_left
}

/// Removes the handler without waiting for running calls. The caller holds the lock.
fn clear_locked() {
    HANDLER.store(core::ptr::null_mut(), Relaxed);
    OWNER.store(NO_OWNER, Relaxed);
}

/// Handler in Rust.
pub trait Handler: 'static {
    /// Takes a message.
    ///
    /// Context: any, NMI included, with interrupts off; at most one call at a time on each CPU.
    fn klog(irqs: &IrqsOff, message: &[u8]);
}

/// Owner of a handler in Rust. Dropping it removes its handler; sleeps.
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Self {
        let mut last = LAST_OWNER.lock();
        *last += 1;
        Self(*last)
    }

    /// Makes `H` the current handler, unless there is another, which is then named in the kernel's
    /// log. Errors: [`NotSet::ModuleGoes`], [`NotSet::Occupied`].
    pub(crate) fn arm_if_free<H: Handler>(&self) -> Result<(), NotSet> {
        let new = address(Some(handle::<H>));
        let lock = LAST_OWNER.lock();
        if is_going(new.addr()) {
            return Err(NotSet::ModuleGoes);
        }
        let current = HANDLER.load(Relaxed);
        if !current.is_null() && !self.is_armed() {
            drop(lock);
            // SAFETY: The address is only looked up.
            unsafe { bindings::ferro_klog_tell_other(current) };
            return Err(NotSet::Occupied);
        }
        OWNER.store(self.0, Relaxed);
        // For the function's lifetime see `arm()`. The old handler is NULL or the same function, so
        // there is none to wait for.
        HANDLER.xchg(new, Full);
        Ok(())
    }

    /// Makes `H` the current handler, replacing another. Errors: [`NotSet::ModuleGoes`].
    pub(crate) fn arm<H: Handler>(&self) -> Result<(), NotSet> {
        // SAFETY: `handle()` keeps the rules of the structure. Its code is in the module that names
        // `H`. If this owner is dropped before that module is unloaded, `disarm()` removes the
        // function and waits. If the owner was leaked, `ferro_klog_module_going()` does so, by the
        // function's address.
        unsafe { set_owned(Some(handle::<H>), self.0) }
    }

    /// Removes the handler if this owner has it, and waits until no CPU executes it.
    pub(crate) fn disarm(&self) {
        let lock = LAST_OWNER.lock();
        if self.is_armed() {
            clear_locked();
        }
        drop(lock);
        // Waits in any case: a caller that has replaced this handler may not have waited yet.
        synchronize_rcu();
    }

    /// Returns true if the current handler is of this owner. Context: any.
    pub(crate) fn is_armed(&self) -> bool {
        OWNER.load(Relaxed) == self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// Calls `H` as a `KlogFn`.
///
/// # Safety
///
/// Called by [`log`].
unsafe extern "C" fn handle<H: Handler>(data: *const c_void, len: c_int) {
    let Ok(len) = usize::try_from(len) else {
        return;
    };
    // SAFETY: By the rules of `log()` the bytes are readable and do not change during the call.
    let message = unsafe { core::slice::from_raw_parts(data.cast(), len) };
    with_irqs_off(|irqs| H::klog(irqs, message));
}
