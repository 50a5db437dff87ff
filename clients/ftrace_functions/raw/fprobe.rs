// SPDX-License-Identifier: GPL-2.0

//! Entries and returns of functions, by `<linux/fprobe.h>`.
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

/// Handler for entries and returns. It may run on several CPUs at a time.
pub(crate) trait Timed: Send + Sync + 'static {
    /// Handles the entry of a function. Returns the time to follow the call to its return.
    fn entered(&self) -> Option<u64>;

    /// Handles the return of the function at `ip`, which was entered at this time.
    fn left(&self, ip: usize, entered: u64);
}

/// Registered `struct fprobe`. The drop sleeps: wrap this in a `Deferred`.
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

// SAFETY: Any thread may unregister a probe, regardless of the registering thread; `timed` is
// `Send`.
unsafe impl<T: Timed> Send for Timer<T> {}
// SAFETY: A shared reference reaches only one word of the probe; `timed` is `Sync`.
unsafe impl<T: Timed> Sync for Timer<T> {}

impl<T: Timed> Timer<T> {
    /// Times the functions at these addresses, without duplicates.
    ///
    /// Errors: -ENOENT or -EINVAL if ftrace does not trace one, -E2BIG, -ENOMEM, and errors of the
    /// function graph.
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
            // INVARIANT: Registered here, after `timed` has been initialised.
            probe <- Opaque::try_ffi_init(move |slot: *mut bindings::fprobe| {
                let count = c_int::try_from(addresses.len()).map_err(|_| E2BIG)?;
                // SAFETY: By the rules of `try_ffi_init()` the slot is memory for a probe that no
                // other code uses.
                unsafe { slot.write(probe) };
                // SAFETY: The slot is pinned, and stays until `drop()` has unregistered the probe.
                // The handlers take it for the field of this structure, which it is. The addresses
                // are only read, and there are `count`.
                to_result(unsafe {
                    bindings::register_fprobe_ips(slot, addresses.as_ptr().cast_mut(), count)
                })
            }),
        }? Error)
    }

    /// Returns the number of calls that could not be followed because the thread was in too many
    /// already.
    pub(crate) fn missed(&self) -> usize {
        // SAFETY: The probe lives as long as `self`; the kernel counts this word up, in one store.
        unsafe { (&raw const (*self.probe.get()).nmissed).read_volatile() }
    }

    /// Returns the handler of a probe.
    ///
    /// # Safety
    ///
    /// `probe` is a field of a `Self`, which stays for `'a`.
    #[inline(always)]
    unsafe fn timed_of<'a>(probe: *mut bindings::fprobe) -> &'a T {
        let field = Opaque::cast_from(probe).cast_mut();
        // SAFETY: This field of a `Self`, by the caller's guarantee.
        let this = unsafe { container_of!(field, Self, probe) };
        // SAFETY: The caller guarantees that the `Self` stays for `'a`; `timed` is initialised
        // before the probe is.
        unsafe { &(*this).timed }
    }

    /// Handles the entry of a function, called by the kernel. Returns 0 to follow the call to its
    /// return.
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
        // SAFETY: The caller, the kernel, passes the registered probe; unregistering it waits for
        // this call.
        match unsafe { Self::timed_of(probe) }.entered() {
            Some(time) => {
                // SAFETY: The probe has an exit handler and asks for this many bytes. They are
                // words of the thread's shadow stack that belong to this call alone.
                unsafe { data.cast::<u64>().write(time) };
                0
            }
            None => 1,
        }
    }

    /// Handles the return of a function, called by the kernel.
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
        // The kernel identifies probes by address. The call may have been followed by an earlier
        // probe at this address, with other data or none.
        if data.is_null() {
            return;
        }
        // SAFETY: If not NULL, `data` points to words of the thread's shadow stack, where any bits
        // are a number.
        let entered = unsafe { data.cast::<u64>().read() };
        // SAFETY: The kernel passes a registered probe; unregistering it waits for this call.
        unsafe { Self::timed_of(probe) }.left(ip, entered);
    }
}

#[pinned_drop]
impl<T: Timed> PinnedDrop for Timer<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant. The function waits until no handler runs, and
        // returns after it call no handler. So the fields dropped after this are unused.
        unsafe { bindings::unregister_fprobe(self.probe.get()) };
    }
}
