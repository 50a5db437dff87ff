// SPDX-License-Identifier: GPL-2.0

//! The entries and returns of functions, by `<linux/fprobe.h>`.
//!
//! Contexts: callbacks any that ftrace traces, with preemption off; the rest process.

use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

/// What to do with the calls of functions, on several CPUs at a time.
pub(crate) trait Timed: Send + Sync + 'static {
    /// A function is entered. Returns the time if its return is wanted.
    fn entered(&self) -> Option<u64>;

    /// The function at `ip` returns, which was entered at this time.
    fn left(&self, ip: usize, entered: u64);
}

/// A registered `struct fprobe`. Its drop sleeps: it belongs in a `Deferred`.
///
/// # Invariants
///
/// `probe` is registered, with handlers that take it for a field of this structure.
#[pin_data(PinnedDrop)]
pub(crate) struct Timer<T: Timed> {
    // First, as the handlers use it.
    timed: T,
    #[pin]
    probe: Opaque<bindings::fprobe>,
}

// SAFETY: Any thread may unregister a probe, whichever has registered it; `timed` is `Send`.
unsafe impl<T: Timed> Send for Timer<T> {}
// SAFETY: What a shared reference reaches of the probe is one word; `timed` is `Sync`.
unsafe impl<T: Timed> Sync for Timer<T> {}

impl<T: Timed> Timer<T> {
    /// Times the functions at these addresses, each of which is there once.
    ///
    /// Errors: -ENOENT or -EINVAL if one is not traced by ftrace, -E2BIG, -ENOMEM, and those of the function graph.
    pub(crate) fn register(
        addresses: &[usize],
        timed: T,
    ) -> impl PinInit<Self, Error> + use<'_, T> {
        let probe = bindings::fprobe {
            entry_data_size: size_of::<u64>(),
            entry_handler: Some(Self::entry),
            exit_handler: Some(Self::exit),
            ..Default::default()
        };
        try_pin_init!(Self {
            timed,
            // INVARIANT: Registered here, when `timed` is there.
            probe <- Opaque::try_ffi_init(move |slot: *mut bindings::fprobe| {
                let count = c_int::try_from(addresses.len()).map_err(|_| E2BIG)?;
                // SAFETY: By the rules of `try_ffi_init()` the slot is memory for a probe that nobody else uses.
                unsafe { slot.write(probe) };
                // SAFETY: The slot is pinned, and stays until `drop()` has unregistered the probe. The handlers take it for the
                // field of this structure, which it is. The addresses are only read, and there are `count`.
                to_result(unsafe {
                    bindings::register_fprobe_ips(slot, addresses.as_ptr().cast_mut(), count)
                })
            }),
        }? Error)
    }

    /// Calls that could not be followed, as the thread was in too many already.
    pub(crate) fn missed(&self) -> usize {
        // SAFETY: The probe is there as long as `self`; the kernel counts this word up, in one store.
        unsafe { (&raw const (*self.probe.get()).nmissed).read_volatile() }
    }

    /// What belongs to a probe.
    ///
    /// # Safety
    ///
    /// `probe` is a field of a `Self`, which stays for `'a`.
    #[inline(always)]
    unsafe fn timed_of<'a>(probe: *mut bindings::fprobe) -> &'a T {
        let field = Opaque::cast_from(probe).cast_mut();
        // SAFETY: The caller guarantees that it is this field of a `Self`.
        let this = unsafe { container_of!(field, Self, probe) };
        // SAFETY: The caller guarantees that the `Self` stays for `'a`; `timed` is initialised before the probe is.
        unsafe { &(*this).timed }
    }

    /// Called by the kernel at the entry of a function. Returns 0 if its return is wanted.
    ///
    /// # Safety
    ///
    /// `probe` is a field of a `Self`, and `data` has room for a `u64`.
    unsafe extern "C" fn entry(
        probe: *mut bindings::fprobe,
        _ip: c_ulong,
        _parent: c_ulong,
        _regs: *mut bindings::ftrace_regs,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: The caller, the kernel, passes the probe that it was given; unregistering it waits for this call.
        match unsafe { Self::timed_of(probe) }.entered() {
            Some(time) => {
                // SAFETY: The probe has an exit handler and asks for this many bytes, which are words of the thread's shadow
                // stack that are this call's alone.
                unsafe { data.cast::<u64>().write(time) };
                0
            }
            None => 1,
        }
    }

    /// Called by the kernel when the function returns.
    ///
    /// # Safety
    ///
    /// `probe` is a field of a `Self`, and `data` is NULL or points to words.
    unsafe extern "C" fn exit(
        probe: *mut bindings::fprobe,
        ip: c_ulong,
        _return_to: c_ulong,
        _regs: *mut bindings::ftrace_regs,
        data: *mut c_void,
    ) {
        // The kernel knows probes by their addresses. A call may have been followed by another that has been at this one, with
        // other data, or none.
        if data.is_null() {
            return;
        }
        // SAFETY: What is not NULL are words of the thread's shadow stack, of which any bits are a number.
        let entered = unsafe { data.cast::<u64>().read() };
        // SAFETY: The kernel passes a probe that is registered; unregistering it waits for this call.
        unsafe { Self::timed_of(probe) }.left(ip, entered);
    }
}

#[pinned_drop]
impl<T: Timed> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant it is registered. The function waits until no handler runs, and for functions that return
        // later none is called, so that what is dropped after this is no longer used.
        unsafe { bindings::unregister_fprobe(self.probe.get()) };
    }
}
