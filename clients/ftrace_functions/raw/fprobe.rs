// SPDX-License-Identifier: GPL-2.0

//! Entries and returns of functions, by `<linux/fprobe.h>`.
//!
//! Contexts: callbacks any that ftrace traces, with preemption off; the rest process.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering;

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

/// Never freed `struct fprobe`, and its handler.
///
/// A call that began while the probe was registered keeps a pointer to it on the shadow stack of
/// its task. When the call returns, the kernel reads the probe, to see whether it is still
/// registered, also after `unregister_fprobe()`. The task may sleep in the call for any time.
#[repr(C)]
struct Slot {
    probe: Opaque<bindings::fprobe>,
    /// Handler of the registered probe.
    handler: AtomicPtr<c_void>,
    /// True while a [`Fprobe`] has the slot.
    is_taken: AtomicBool,
}

// SAFETY: Only the owner of the slot, which `is_taken` makes one at a time, changes the probe; the
// kernel synchronises its own accesses.
unsafe impl Sync for Slot {}

/// Memory for one probe at a time. A drop does not free it, and the removal of the module neither:
/// then kmemleak reports some 200 bytes.
#[derive(Clone, Copy)]
pub(crate) struct FprobeSlot(&'static Slot);

impl FprobeSlot {
    /// Allocates the memory. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        let slot = Slot {
            probe: Opaque::new(bindings::fprobe::default()),
            handler: AtomicPtr::new(core::ptr::null_mut()),
            is_taken: AtomicBool::new(false),
        };
        Ok(Self(KBox::leak(KBox::new(slot, GFP_KERNEL)?)))
    }
}

/// Registered `struct fprobe`. The drop sleeps: wrap this in a `Deferred`.
///
/// # Invariants
///
/// This has taken `slot`. Its probe is registered, with callbacks for `H`, and the handler of the
/// slot is `_handler`.
pub(crate) struct Fprobe<H: FprobeHandler> {
    slot: &'static Slot,
    /// The slot has a pointer to it.
    _handler: KBox<H>,
}

impl<H: FprobeHandler> Fprobe<H> {
    /// Times the functions at these addresses, without duplicates.
    ///
    /// Errors: -EBUSY if another probe has the slot, -ENOENT or -EINVAL if ftrace does not trace
    /// one, -E2BIG, -ENOMEM, and errors of the function graph.
    pub(crate) fn register(slot: FprobeSlot, addresses: &[usize], handler: H) -> Result<Self> {
        let count = c_int::try_from(addresses.len()).map_err(|_| E2BIG)?;
        let handler = KBox::new(handler, GFP_KERNEL)?;
        let FprobeSlot(slot) = slot;
        if slot.is_taken.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        let pointer = (&raw const *handler).cast_mut().cast();
        slot.handler.store(pointer, Ordering::Relaxed);
        let probe = bindings::fprobe {
            entry_data_size: size_of::<u64>(),
            entry_handler: Some(Self::entry),
            exit_handler: Some(Self::exit),
            ..Default::default()
        };
        // SAFETY: Just taken, so the probe is not registered. A call that began with an earlier
        // probe of the slot may read `hlist_array`, which is and stays NULL.
        unsafe { slot.probe.get().write(probe) };
        // SAFETY: The slot stays forever. Its callbacks take the probe for a field of a slot with a
        // handler of `H`, as it is until `drop()` has unregistered the probe. The function only
        // reads the `count` addresses.
        let registered = to_result(unsafe {
            bindings::register_fprobe_ips(slot.probe.get(), addresses.as_ptr().cast_mut(), count)
        });
        if let Err(error) = registered {
            slot.is_taken.store(false, Ordering::Release);
            return Err(error);
        }
        // INVARIANT: Taken and registered.
        Ok(Self {
            slot,
            _handler: handler,
        })
    }

    /// Returns the number of calls that could not be followed to their return because the thread
    /// was in too many already.
    pub(crate) fn missed(&self) -> usize {
        // SAFETY: Slots stay forever; the kernel counts this word up, in one store.
        unsafe { (&raw const (*self.slot.probe.get()).nmissed).read_volatile() }
    }

    /// Returns the handler of a probe.
    ///
    /// # Safety
    ///
    /// `probe` is a field of a slot of a `Self`, which stays for `'a`.
    #[inline(always)]
    unsafe fn handler_of<'a>(probe: *mut bindings::fprobe) -> &'a H {
        let field = Opaque::cast_from(probe).cast_mut();
        // SAFETY: This field of a slot, by the caller's guarantee; slots stay forever.
        let slot = unsafe { &*container_of!(field, Slot, probe) };
        // SAFETY: By the type invariant the pointer is to the handler of the `Self`, which stays
        // for `'a` by the caller's guarantee.
        unsafe { &*slot.handler.load(Ordering::Relaxed).cast::<H>() }
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

impl<H: FprobeHandler> Drop for Fprobe<H> {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant. The function waits until no handler runs, and
        // returns after it call no handler, as the probe is not registered. So `_handler` is unused
        // after it.
        unsafe { bindings::unregister_fprobe(self.slot.probe.get()) };
        self.slot.is_taken.store(false, Ordering::Release);
    }
}
