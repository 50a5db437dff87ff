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
use ferro_sys::mutex::StaticMutex;
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

use crate::text::Text;

type KlogFn = unsafe extern "C" fn(*const c_void, c_int);

/// The current handler's function, or NULL. Exchanged with full ordering, which pairs with the
/// acquire in `klog()`: who is called sees what was done before it was registered.
static HANDLER: Atomic<*mut c_void> = Atomic::new(core::ptr::null_mut());

extern "C" {
    /// `printk.c`
    static mut klog_rust_mutex: bindings::mutex;
}

/// The registration that made the current handler, by its number; 0 is C's. It changes together with [`HANDLER`].
///
/// The function does not say whose it is: two registrations of one type have the same.
static OWNER: StaticMutex<Owner> =
    // SAFETY: A mutex from DEFINE_MUTEX(), for nothing else.
    unsafe { StaticMutex::new(&raw mut klog_rust_mutex, Owner { now: 0, last: 0 }) };

struct Owner {
    now: u64,
    /// The last number that was given.
    last: u64,
}

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
    unsafe { set_handler(ops.klog, |_| 0) };
    0
}

/// Has no handler any more.
#[export]
extern "C" fn unregister_klog_handler() {
    let owner = OWNER.lock();
    HANDLER.store(core::ptr::null_mut(), Relaxed);
    drop(owner);
    // Even if there was none: another task may just have taken it away, and may not have waited yet.
    synchronize_rcu();
}

/// Makes a function the current handler, in place of the one before. Returns the number of its owner.
///
/// # Safety
///
/// The function keeps the rules of `struct klog_operations`, and stays until it has been taken away.
unsafe fn set_handler(function: Option<KlogFn>, number: impl FnOnce(&mut Owner) -> u64) -> u64 {
    let new = address(function);
    let mut owner = OWNER.lock();
    let number = number(&mut owner);
    owner.now = number;
    let old = HANDLER.xchg(new, Full);
    drop(owner);
    if !old.is_null() && old != new {
        synchronize_rcu();
    }
    number
}

/// Takes the handler of this owner away, if it is still the current one, and waits until nobody executes it.
fn clear_handler(number: u64) {
    let owner = OWNER.lock();
    if owner.now == number {
        HANDLER.store(core::ptr::null_mut(), Relaxed);
    }
    drop(owner);
    // It does not matter whether it was: another may have taken its place, and may not have waited yet.
    synchronize_rcu();
}

/// For `printk.c`: a module goes. Its handler goes before, if it has been forgotten.
///
/// # Safety
///
/// `module` is there during the call.
#[no_mangle]
unsafe extern "C" fn ferro_klog_module_going(module: *mut bindings::module) {
    let Some(module) = NonNull::new(module) else {
        return;
    };
    // SAFETY: By the rules of this function.
    let module = unsafe { Module::new(module) };
    let owner = OWNER.lock();
    let is_left = module.contains(HANDLER.load(Relaxed).addr());
    if is_left {
        HANDLER.store(core::ptr::null_mut(), Relaxed);
    }
    drop(owner);
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

/// A handler that stays registered until this is dropped, or until another takes its place.
pub struct Registration<H: Handler>(u64, PhantomData<H>);

impl<H: Handler> Registration<H> {
    /// Makes `H` the current handler. Context: process; sleeps.
    pub fn new() -> Self {
        // SAFETY: `drop()` takes it away before the function can go.
        let number = unsafe {
            set_handler(Some(handle::<H>), |owner| {
                owner.last += 1;
                owner.last
            })
        };
        Self(number, PhantomData)
    }
}

impl<H: Handler> Default for Registration<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Handler> Drop for Registration<H> {
    /// Nobody is in the handler any more afterwards. Context: process; sleeps.
    fn drop(&mut self) {
        clear_handler(self.0);
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
