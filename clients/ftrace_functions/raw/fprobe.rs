// SPDX-License-Identifier: GPL-2.0

//! Entries and returns of functions, by `<linux/fprobe.h>`.
//!
//! Contexts: callbacks any that ftrace traces, with preemption off; the rest process.

use ferro_sys::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

/// Handler for entries and returns. It may run on several CPUs at a time.
pub(crate) trait FprobeHandler: Send + Sync + 'static {
    /// Handles the entry of a function. Returns the time of the entry to follow the call to its
    /// return, or `None` to ignore the call.
    fn entry(&self) -> Option<u64>;

    /// Handles the return of the function at `ip`. `entered` is the time that
    /// [`FprobeHandler::entry`] has returned for the call.
    fn exit(&self, ip: usize, entered: u64);
}

/// Registered `struct fprobe`. The drop sleeps: wrap this in a `Deferred`.
///
/// # Invariants
///
/// `probe` is registered, with callbacks that take it for a field of this structure.
#[pin_data(PinnedDrop)]
pub(crate) struct Fprobe<H: FprobeHandler> {
    // First, as the callbacks use it.
    handler: H,
    #[pin]
    probe: Opaque<bindings::fprobe>,
}

// SAFETY: Any thread may unregister a probe, regardless of the registering thread; `handler` is
// `Send`.
unsafe impl<H: FprobeHandler> Send for Fprobe<H> {}
// SAFETY: A shared reference reaches only one word of the probe; `handler` is `Sync`.
unsafe impl<H: FprobeHandler> Sync for Fprobe<H> {}

impl<H: FprobeHandler> Fprobe<H> {
    /// Times the functions at these addresses, without duplicates.
    ///
    /// Errors: -ENOENT or -EINVAL if ftrace does not trace one, -E2BIG, -ENOMEM, and errors of the
    /// function graph.
    pub(crate) fn register(
        addresses: &[usize],
        handler: H,
    ) -> impl PinInit<Self, Error> + use<'_, H> {
        let probe = bindings::fprobe {
            entry_data_size: size_of::<u64>(),
            entry_handler: Some(Self::entry),
            exit_handler: Some(Self::exit),
            ..Default::default()
        };
        try_pin_init!(Self {
            handler,
            // INVARIANT: Registered here, after `handler` has been initialised.
            probe <- Opaque::try_ffi_init(move |slot: *mut bindings::fprobe| {
                let count = c_int::try_from(addresses.len()).map_err(|_| E2BIG)?;
                // SAFETY: By the rules of `try_ffi_init()` the slot is memory for a probe that no
                // other code uses.
                unsafe { slot.write(probe) };
                // SAFETY: The slot is pinned, and stays until `drop()` has unregistered the probe.
                // The callbacks take it for a field of this structure, as it is here. The function
                // only reads the `count` addresses.
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
    unsafe fn handler_of<'a>(probe: *mut bindings::fprobe) -> &'a H {
        let field = Opaque::cast_from(probe).cast_mut();
        // SAFETY: This field of a `Self`, by the caller's guarantee.
        let this = unsafe { container_of!(field, Self, probe) };
        // SAFETY: The caller guarantees that the `Self` stays for `'a`; `handler` is initialised
        // before the probe is.
        unsafe { &(*this).handler }
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
        match unsafe { Self::handler_of(probe) }.entry() {
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
        // SAFETY: If not NULL, `data` points to words of the thread's shadow stack; any bits in
        // them are a valid `u64`.
        let entered = unsafe { data.cast::<u64>().read() };
        // SAFETY: The kernel passes a registered probe; unregistering it waits for this call.
        unsafe { Self::handler_of(probe) }.exit(ip, entered);
    }
}

#[pinned_drop]
impl<H: FprobeHandler> PinnedDrop for Fprobe<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered by the type invariant. The function waits until no handler runs, and
        // returns after it call no handler. So the fields dropped after this are unused.
        unsafe { bindings::unregister_fprobe(self.probe.get()) };
    }
}
