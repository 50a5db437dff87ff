// SPDX-License-Identifier: GPL-2.0

//! The current handler: a function that C code may have registered, and that may be of a module.
//!
//! A handler is called with interrupts off, where RCU watches: that is a read-side critical section,
//! so waiting for a grace period waits for every handler that is being called.
//!
//! Contexts: [`log`] and [`is_active`] any, NMI included; what changes the handler in process context.

use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu::synchronize_rcu;

use crate::error::Error;

/// The function of `struct klog_operations`.
pub(crate) type KlogFn = unsafe extern "C" fn(*const c_void, c_int);

/// The current handler's function, or NULL. Exchanged with full ordering, which pairs with the
/// acquire in [`log`]: whoever is called sees what was done before it was registered.
static HANDLER: Atomic<*mut c_void> = Atomic::new(core::ptr::null_mut());

/// Held while the handler changes; has the last number that was given to an [`Owner`].
static LAST: StaticMutex<u64> =
    // SAFETY: `printk.c` defines the mutex with `DEFINE_MUTEX()`, in the kernel's image, and nothing but this static
    // uses it.
    unsafe { StaticMutex::new(&raw mut bindings::klog_rust_mutex, NO_OWNER) };

/// Whose the current handler is. It changes with [`HANDLER`], under the lock.
///
/// The function does not say whose it is: two owners with one type have the same.
static OWNER: Atomic<u64> = Atomic::new(NO_OWNER);

/// There is no handler, or it was registered in C.
const NO_OWNER: u64 = 0;

/// Whether there is a handler.
#[inline]
pub(crate) fn is_active() -> bool {
    !HANDLER.load(Relaxed).is_null()
}

/// Hands a message to the current handler.
///
/// # Safety
///
/// `len` bytes at `data` can be read and do not change during the call, if `len` is positive and `data` is not NULL.
#[inline(always)]
pub(crate) unsafe fn log(data: *const c_void, len: c_int) {
    if len <= 0 || data.is_null() || !is_active() {
        return;
    }
    with_irqs_off(|_| {
        // SAFETY: It requires interrupts to be off, which they are in this closure, and `ferro_klog_exit()` to follow on
        // this CPU, which it does below.
        if !unsafe { bindings::ferro_klog_enter() } {
            return;
        }
        let handler = HANDLER.load(Acquire);
        if !handler.is_null() {
            // SAFETY: Only `address()` makes these pointers, of functions of this type. Whoever takes a function out of
            // HANDLER lets it go only after a grace period, and `ferro_klog_enter()` has found that RCU watches: with
            // interrupts off, such a period cannot end before this closure does. The bytes are readable by the rules of
            // this function.
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
    // SAFETY: `len` is at most the length of the slice, whose bytes are readable and do not change as long as it is
    // borrowed.
    unsafe { log(data.as_ptr().cast(), len) };
}

fn address(function: Option<KlogFn>) -> *mut c_void {
    function.map_or(core::ptr::null_mut(), |function| {
        function as *const () as *mut c_void
    })
}

/// Makes a function of C code the current handler, or none, in place of the one before.
///
/// # Safety
///
/// The function keeps the rules of `struct klog_operations`, and stays until it has been taken away and a grace period
/// has passed, or until its module goes.
pub(crate) unsafe fn set(function: Option<KlogFn>) -> Result<(), Error> {
    // SAFETY: By the rules of this function.
    unsafe { set_owned(function, NO_OWNER) }
}

/// [`set`], for an owner. Errors: [`Error::ModuleGoes`].
///
/// # Safety
///
/// As for [`set`].
unsafe fn set_owned(function: Option<KlogFn>, owner: u64) -> Result<(), Error> {
    let new = address(function);
    let lock = LAST.lock();
    if is_going(new.addr()) {
        return Err(Error::ModuleGoes);
    }
    OWNER.store(owner, Relaxed);
    let old = HANDLER.xchg(new, Full);
    drop(lock);
    if !old.is_null() && old != new {
        synchronize_rcu();
    }
    Ok(())
}

/// Takes the handler away, whoever's it is, and waits until nobody executes it.
pub(crate) fn clear() {
    let lock = LAST.lock();
    forget();
    drop(lock);
    // Even if there was none: another task may just have taken it away, and may not have waited yet.
    synchronize_rcu();
}

/// Takes the handler away if its code is of a module, which is about to go, and waits until nobody executes it. Whether it
/// was.
pub(crate) fn clear_of(module: &Module) -> bool {
    let lock = LAST.lock();
    let is_left = module.contains(HANDLER.load(Relaxed).addr());
    if is_left {
        forget();
    }
    drop(lock);
    if is_left {
        synchronize_rcu();
    }
    is_left
}

/// With the lock. Nobody has been waited for.
fn forget() {
    HANDLER.store(core::ptr::null_mut(), Relaxed);
    OWNER.store(NO_OWNER, Relaxed);
}

/// What a handler in Rust does.
pub trait Handler: 'static {
    /// Takes a message.
    ///
    /// Context: any, NMI included, with interrupts off; on one CPU only one call at a time.
    fn klog(irqs: &IrqsOff, message: &[u8]);
}

/// Whose a handler in Rust is. When it is dropped, its handler is taken away. Sleeps.
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Self {
        let mut last = LAST.lock();
        *last += 1;
        Self(*last)
    }

    /// Makes `H` the current handler, unless there is another, which the kernel's log names then.
    /// Errors: [`Error::ModuleGoes`], [`Error::Occupied`].
    pub(crate) fn arm_if_free<H: Handler>(&self) -> Result<(), Error> {
        let new = address(Some(handle::<H>));
        let lock = LAST.lock();
        if is_going(new.addr()) {
            return Err(Error::ModuleGoes);
        }
        let current = HANDLER.load(Relaxed);
        if !current.is_null() && !self.is_armed() {
            drop(lock);
            // SAFETY: The address is only looked up.
            unsafe { bindings::ferro_klog_tell_other(current) };
            return Err(Error::Occupied);
        }
        OWNER.store(self.0, Relaxed);
        // For the function's life see `arm()`. It replaces none but itself, so there is nothing to
        // wait for.
        HANDLER.xchg(new, Full);
        Ok(())
    }

    /// Makes `H` the current handler, in place of another. Errors: [`Error::ModuleGoes`].
    pub(crate) fn arm<H: Handler>(&self) -> Result<(), Error> {
        // SAFETY: `handle()` keeps the rules of the structure. It is code of the module that names `H`: if this is dropped
        // before the module goes, `disarm()` takes the function away and waits; if it has been forgotten,
        // `ferro_klog_module_going()` does, by the function's address.
        unsafe { set_owned(Some(handle::<H>), self.0) }
    }

    /// Takes the handler away if it is of this owner, and waits until nobody executes it.
    pub(crate) fn disarm(&self) {
        let lock = LAST.lock();
        if self.is_armed() {
            forget();
        }
        drop(lock);
        // It does not matter whether it was: another may have taken its place, and may not have waited yet.
        synchronize_rcu();
    }

    /// Whether the current handler is of this owner. Context: any.
    pub(crate) fn is_armed(&self) -> bool {
        OWNER.load(Relaxed) == self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// # Safety
///
/// Called by [`log`].
unsafe extern "C" fn handle<H: Handler>(data: *const c_void, len: c_int) {
    let Ok(len) = usize::try_from(len) else {
        return;
    };
    // SAFETY: `log()` passes on what it was promised: that the bytes are readable and do not change during the call.
    let message = unsafe { core::slice::from_raw_parts(data.cast(), len) };
    with_irqs_off(|irqs| H::klog(irqs, message));
}
