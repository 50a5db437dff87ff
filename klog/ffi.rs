// SPDX-License-Identifier: GPL-2.0

//! The current handler, and the functions of `<linux/klog.h>`.
//!
//! Contexts: [`klog`] and what calls it anywhere, NMI included; registering in process context.
//!
//! A handler is called with interrupts off, where RCU watches: that is a read-side critical section,
//! so waiting for a grace period waits for every handler that is being called.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::hook::Module;
use ferro_sys::sync::deferred::Deferred;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu::synchronize_rcu;

use crate::error::must_sleep;
use crate::error::Error;
use crate::text::Text;

type KlogFn = unsafe extern "C" fn(*const c_void, c_int);

/// The current handler's function, or NULL. Exchanged with full ordering, which pairs with the
/// acquire in `klog()`: who is called sees what was done before it was registered.
static HANDLER: Atomic<*mut c_void> = Atomic::new(core::ptr::null_mut());

/// Held while the handler changes; has the last number that was given to a registration.
static LAST: StaticMutex<u64> =
    // SAFETY: A mutex from DEFINE_MUTEX(), for nothing else.
    unsafe { StaticMutex::new(&raw mut bindings::klog_rust_mutex, NO_OWNER) };

/// The registration that made the current handler, by its number. It changes with [`HANDLER`], under the lock.
///
/// The function does not say whose it is: two registrations of one type have the same.
static OWNER: Atomic<u64> = Atomic::new(NO_OWNER);

/// There is no handler, or it was registered in C.
const NO_OWNER: u64 = 0;

/// The closing NUL of a text in C.
const NUL: usize = 1;

fn address(function: Option<KlogFn>) -> *mut c_void {
    function.map_or(core::ptr::null_mut(), |function| {
        function as *const () as *mut c_void
    })
}

/// Hands a message to the current handler.
///
/// # Safety
///
/// `len` bytes at `data` can be read and do not change, if it is positive.
#[export]
unsafe extern "C" fn klog(data: *const c_void, len: c_int) {
    if len <= 0 || data.is_null() || !active() {
        return;
    }
    with_irqs_off(|_| {
        // SAFETY: Interrupts are off.
        if !unsafe { bindings::ferro_klog_enter() } {
            return;
        }
        let handler = HANDLER.load(Acquire);
        if !handler.is_null() {
            // SAFETY: Only `address()` makes these pointers. The function stays until it is unregistered
            // and a grace period is over, and this section ends before that.
            unsafe {
                let handler = core::mem::transmute::<*mut c_void, KlogFn>(handler);
                handler(data, len);
            }
        }
        // SAFETY: Pairs with the entry, on the same CPU.
        unsafe { bindings::ferro_klog_exit() };
    });
}

/// Whether there is a handler.
#[inline]
fn active() -> bool {
    !HANDLER.load(Relaxed).is_null()
}

/// Whether there is a handler, for `klog_printk()`.
#[export]
extern "C" fn ferro_klog_active() -> bool {
    active()
}

/// # Safety
///
/// `ops` is NULL or valid during the call, and its function keeps the rules of the header.
#[export]
unsafe extern "C" fn register_klog_handler(ops: *const bindings::klog_operations) -> c_int {
    // SAFETY: By the rules of this function.
    let Some(ops) = (unsafe { ops.as_ref() }) else {
        return EINVAL.to_errno();
    };
    // SAFETY: By the rules of this function.
    unsafe { set_handler(ops.klog, NO_OWNER) };
    0
}

/// Has no handler any more.
#[export]
extern "C" fn unregister_klog_handler() {
    let lock = LAST.lock();
    forget_handler();
    drop(lock);
    // Even if there was none: another task may just have taken it away, and may not have waited yet.
    synchronize_rcu();
}

/// With the lock. Nobody has been waited for.
fn forget_handler() {
    HANDLER.store(core::ptr::null_mut(), Relaxed);
    OWNER.store(NO_OWNER, Relaxed);
}

/// Makes a function the current handler, in place of the one before.
///
/// # Safety
///
/// The function keeps the rules of `struct klog_operations`, and stays until it has been taken away.
unsafe fn set_handler(function: Option<KlogFn>, number: u64) {
    let new = address(function);
    let lock = LAST.lock();
    OWNER.store(number, Relaxed);
    let old = HANDLER.xchg(new, Full);
    drop(lock);
    if !old.is_null() && old != new {
        synchronize_rcu();
    }
}

/// Takes the handler of this owner away, if it is still the current one, and waits until nobody executes it.
fn clear_handler(number: u64) {
    let lock = LAST.lock();
    if OWNER.load(Relaxed) == number {
        forget_handler();
    }
    drop(lock);
    // It does not matter whether it was: another may have taken its place, and may not have waited yet.
    synchronize_rcu();
}

/// For `printk.c`: a module goes. Its handler goes before, if it has been forgotten.
///
/// # Safety
///
/// `module` is there during the call.
#[export]
unsafe extern "C" fn ferro_klog_module_going(module: *mut bindings::module) {
    let Some(module) = NonNull::new(module) else {
        return;
    };
    // SAFETY: By the rules of this function.
    let module = unsafe { Module::new(module) };
    let lock = LAST.lock();
    let is_left = module.contains(HANDLER.load(Relaxed).addr());
    if is_left {
        forget_handler();
    }
    drop(lock);
    if is_left {
        pr_notice!("a module that goes has left a handler\n");
        synchronize_rcu();
    }
}

/// Logs raw data, as `klog()` does in C. Context: any.
pub fn write(data: &[u8]) {
    let len = c_int::try_from(data.len()).unwrap_or(c_int::MAX);
    // SAFETY: A slice is readable and does not change.
    unsafe { klog(data.as_ptr().cast(), len) };
}

/// Logs formatted text, for [`klog!`](crate::klog!). Context: any.
pub fn print(args: fmt::Arguments<'_>) {
    if !active() {
        return;
    }
    with_irqs_off(|_| {
        // SAFETY: Interrupts are off.
        let text = unsafe { bindings::ferro_klog_text_get() };
        if text.is_null() {
            return;
        }
        let max = usize::try_from(bindings::KLOG_PRINTK_MAX).unwrap_or(NUL) - NUL;
        // SAFETY: The buffer is that long, initialised, and ours until we give it back.
        let mut text = Text::new(unsafe { core::slice::from_raw_parts_mut(text.cast(), max) });
        // An error says that it was cut, or that a value had nothing to show.
        let _ = fmt::Write::write_fmt(&mut text, args);
        write(text.as_bytes());
        // SAFETY: Pairs with the getting, on the same CPU.
        unsafe { bindings::ferro_klog_text_put() };
    });
}

/// Messages since boot that no handler got although there was one.
pub fn missed() -> u64 {
    // SAFETY: Reads counters.
    unsafe { bindings::klog_missed() }
}

/// What a handler in Rust does.
pub trait Handler: 'static {
    /// Takes a message.
    ///
    /// Context: any, NMI included, with interrupts off; on one CPU only one call at a time.
    fn klog(irqs: &IrqsOff, message: &[u8]);
}

/// A handler that is registered until this is dropped, and gets the messages until then, or until another takes its place.
///
/// It may be dropped anywhere. Where nothing may sleep, as in the handler, a work item does it: the handler is called until
/// then.
pub struct Registration<H: Handler> {
    owned: Deferred<Owned>,
    _handler: PhantomData<H>,
}

impl<H: Handler> Registration<H> {
    /// Registers `H`, and makes it the current handler.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`], [`Error::NoMemory`].
    pub fn register() -> Result<Self, Error> {
        must_sleep()?;
        let mut last = LAST.lock();
        *last += 1;
        let number = *last;
        drop(last);
        let new = Self {
            owned: Deferred::new(Ok::<_, Error>(Owned { number }))?,
            _handler: PhantomData,
        };
        new.arm()?;
        Ok(new)
    }

    /// Makes it the current handler, in place of another, if it is not.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`].
    pub fn arm(&self) -> Result<(), Error> {
        must_sleep()?;
        // SAFETY: When `owned` is dropped it takes the function away, and before that it cannot go.
        unsafe { set_handler(Some(handle::<H>), self.owned.number) };
        Ok(())
    }

    /// Makes it the current handler no longer, if it is. Nobody is in the handler any more afterwards.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`].
    pub fn disarm(&self) -> Result<(), Error> {
        must_sleep()?;
        clear_handler(self.owned.number);
        Ok(())
    }

    /// Whether it is the current handler. Context: any.
    pub fn is_armed(&self) -> bool {
        OWNER.load(Relaxed) == self.owned.number
    }
}

/// The number of a registration, whose handler goes with it.
struct Owned {
    number: u64,
}

impl Drop for Owned {
    fn drop(&mut self) {
        clear_handler(self.number);
    }
}

/// # Safety
///
/// Called by [`klog`].
unsafe extern "C" fn handle<H: Handler>(data: *const c_void, len: c_int) {
    let Ok(len) = usize::try_from(len) else {
        return;
    };
    // SAFETY: `klog()` was promised that the bytes are readable and do not change.
    let message = unsafe { core::slice::from_raw_parts(data.cast(), len) };
    with_irqs_off(|irqs| H::klog(irqs, message));
}
