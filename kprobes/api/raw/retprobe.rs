// SPDX-License-Identifier: GPL-2.0

//! Kretprobes, registered at the C interface, and their callbacks.
//!
//! Contexts: callbacks any, NMI included; the rest process.

use ferro_sys::bindings;
use kernel::container_of;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::batch::InEngine;
use super::batch::IsRegistered;
use super::batch::Unregistered;
use super::kprobe::OwnedTarget;
use super::kprobe::Registered;
use super::leaked_probes::delist_one;
use super::regs::Regs;

/// Callbacks of a function's entry and return, on several CPUs at a time.
pub(crate) trait ReturnCallbacks: Send + Sync + 'static {
    /// Data kept for each call, zero at first.
    type Kept: Zeroable + Copy + Send;

    /// True if there is a callback at the entry.
    const CALLS_ENTRY: bool;

    /// Runs at the entry, which is at `address`. Returns true to follow the call to its return.
    fn entered(&self, regs: &mut Regs, address: usize, data: &mut Self::Kept) -> bool;

    /// Runs after the function has returned to `address`.
    fn left(&self, regs: &mut Regs, address: usize, data: &mut Self::Kept);
}

/// Maximum number of bytes for the calls of a return probe.
const MOST_BYTES: usize = 64 << 20;

/// Registered kretprobe with its handlers. The drop sleeps: wrap this in a `Deferred`.
///
/// # Invariants
///
/// `kretprobe` is registered, with handlers that take it for a field of this structure. Or, unless
/// `is_registered`, it is not registered, and no handler is running. It is registered except in an
/// [`Unregistered`] and during the drop.
#[pin_data(PinnedDrop)]
pub(crate) struct RawRetprobe<H: ReturnCallbacks> {
    // In order of initialisation.
    handler: H,
    target: OwnedTarget,
    /// Maximum number of calls that can be followed at a time.
    maxactive: c_int,
    #[pin]
    kretprobe: Opaque<bindings::kretprobe>,
    is_registered: IsRegistered,
}

// SAFETY: Any thread may unregister a kretprobe, regardless of the registering thread; handlers are
// `Send`.
unsafe impl<H: ReturnCallbacks> Send for RawRetprobe<H> {}
// SAFETY: A shared reference reaches only single words of the kretprobe, and functions of the
// engine, which take its lock; handlers are `Sync`. Only the owner uses `is_registered`.
unsafe impl<H: ReturnCallbacks> Sync for RawRetprobe<H> {}

impl<H: ReturnCallbacks> RawRetprobe<H> {
    /// Checks the data: instances have a word's alignment and hold no more than this.
    const DATA_FITS: () = {
        assert!(align_of::<H::Kept>() <= align_of::<usize>());
        assert!(size_of::<H::Kept>() <= bindings::KRETPROBE_MAX_DATA_SIZE as usize);
    };

    /// Maximum number of calls that can be followed at a time. The C engine computes their bytes in
    /// an `int`, unchecked.
    const MOST: usize =
        MOST_BYTES / (size_of::<bindings::kretprobe_instance>() + size_of::<H::Kept>());

    /// Prepares a probe. Errors: -E2BIG for too many calls at a time, and no memory.
    pub(crate) fn unregistered(
        target: OwnedTarget,
        max_active: u32,
        handler: H,
    ) -> Result<Unregistered<Self>> {
        if max_active as usize > Self::MOST {
            return Err(E2BIG);
        }
        let maxactive = c_int::try_from(max_active).map_err(|_| E2BIG)?;
        Unregistered::new(try_pin_init!(Self {
            handler,
            target,
            maxactive,
            // INVARIANT: Not registered, as `is_registered` says.
            kretprobe: Opaque::zeroed(),
            is_registered: IsRegistered::no(),
        }? Error))
    }

    /// Returns the registered kprobe at the entry.
    pub(crate) fn registered(&self) -> Registered<'_> {
        // SAFETY: The kretprobe is a field of `self`, so the kprobe is one, too; only its address
        // is taken.
        let kprobe = unsafe { &raw const (*self.kretprobe.get()).kp };
        // SAFETY: It lives as long as `self`; `Opaque` leaves its layout as it is, and permits
        // writes by others.
        let kprobe = unsafe { &*Opaque::cast_from(kprobe) };
        // SAFETY: Registered by the type invariant until `drop()`, which this borrow precedes.
        unsafe { Registered::new(kprobe) }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.handler
    }

    /// Returns the number of calls that were not followed because too many others were.
    pub(crate) fn missed(&self) -> usize {
        // SAFETY: Valid by the type invariant; the engine counts this word up, in one store.
        let missed = unsafe { (&raw const (*self.kretprobe.get()).nmissed).read_volatile() };
        missed.try_into().unwrap_or(usize::MAX)
    }

    /// Returns the probe of an instance.
    ///
    /// # Safety
    ///
    /// `instance` is one of a registered `Self`.
    #[inline]
    unsafe fn of_instance(instance: *mut bindings::kretprobe_instance) -> *const Self {
        // SAFETY: An instance, by the caller's guarantee; an engine sets both pointers before it
        // hands one out.
        let kretprobe = unsafe { (*(*instance).node.rethook).data };
        let field = Opaque::cast_from(kretprobe.cast::<bindings::kretprobe>()).cast_mut();
        // SAFETY: In both engines this is the kretprobe (`get_kretprobe()` reads it), a field of a
        // `Self` by the caller's guarantee.
        unsafe { container_of!(field, Self, kretprobe) }
    }

    /// Returns the data of a call.
    ///
    /// # Safety
    ///
    /// As for [`Self::of_instance`].
    #[inline]
    unsafe fn data_of(instance: *mut bindings::kretprobe_instance) -> *mut H::Kept {
        // SAFETY: An instance, by the caller's guarantee; only the address of its last field is
        // taken.
        unsafe { (&raw mut (*instance).data).cast() }
    }

    /// Handles the entry of the function, called by the engine.
    ///
    /// # Safety
    ///
    /// `instance` is one of a registered `Self`; it and `regs` belong to this function until it
    /// returns.
    unsafe extern "C" fn entry(
        instance: *mut bindings::kretprobe_instance,
        regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: The caller, the engine, passes an instance of the registered kretprobe.
        let this = unsafe { Self::of_instance(instance) };
        // SAFETY: The instance is one of a `Self`.
        let data = unsafe { Self::data_of(instance) };
        // SAFETY: An instance has `data_size` bytes there, the size of a `Kept`, aligned as
        // `DATA_FITS` has checked. No other code has it until the call has returned.
        unsafe { data.write_bytes(0, 1) };
        if !H::CALLS_ENTRY {
            return 0;
        }
        // SAFETY: The handler is initialised before the kretprobe is registered, and dropped after
        // it is unregistered, which waits for this call.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The kretprobe is registered, and no code writes this word while it is.
        let address = unsafe { (*(*this).kretprobe.get()).kp.addr }.addr();
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        // SAFETY: Zeroed above, which is a `Kept` by its trait; no other code has this instance.
        let data = unsafe { &mut *data };
        match handler.entered(regs, address, data) {
            true => 0,
            false => 1,
        }
    }

    /// Handles the return of the function, called by the engine.
    ///
    /// # Safety
    ///
    /// `instance` is one of a registered `Self`; it and `regs` belong to this function until it
    /// returns.
    unsafe extern "C" fn returned(
        instance: *mut bindings::kretprobe_instance,
        regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: The caller, the engine, passes an instance of the registered kretprobe.
        let this = unsafe { Self::of_instance(instance) };
        // SAFETY: The handler is initialised before the kretprobe is registered, and dropped after
        // it is unregistered, which waits for this call.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The instance belongs to this call, and its engine has noted the return address at
        // the entry.
        let address = unsafe { (*instance).node.ret_addr };
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        // SAFETY: `entry()` was called for this instance and has written it, unless a `Kept` has no
        // bytes; no other code has the instance.
        let data = unsafe { &mut *Self::data_of(instance) };
        handler.left(regs, address, data);
        0
    }
}

// SAFETY: The kretprobe is a pinned field, and another field owns its symbol's name. The handlers
// take it for that field, and `drop()` unregisters it.
unsafe impl<H: ReturnCallbacks> InEngine for RawRetprobe<H> {
    type Struct = bindings::kretprobe;

    fn in_engine(&self) -> *mut bindings::kretprobe {
        self.kretprobe.get()
    }

    fn fresh(&self) -> bindings::kretprobe {
        let () = Self::DATA_FITS;
        // Data has to be zeroed at the entry, with or without a handler.
        let has_entry = H::CALLS_ENTRY || size_of::<H::Kept>() != 0;
        bindings::kretprobe {
            kp: self.target.kprobe(),
            handler: Some(Self::returned),
            entry_handler: if has_entry { Some(Self::entry) } else { None },
            maxactive: self.maxactive,
            data_size: size_of::<H::Kept>(),
            ..Default::default()
        }
    }

    fn is_registered(&self) -> &IsRegistered {
        &self.is_registered
    }

    fn handlers() -> [usize; 2] {
        [
            (Self::entry as *const ()).addr(),
            (Self::returned as *const ()).addr(),
        ]
    }

    unsafe fn register(all: *mut *mut bindings::kretprobe, count: c_int) -> c_int {
        // SAFETY: By the rules of this function.
        unsafe { bindings::register_kretprobes(all, count) }
    }

    unsafe fn unregister(all: *mut *mut bindings::kretprobe, count: c_int) {
        // SAFETY: By the rules of this function.
        unsafe { bindings::unregister_kretprobes(all, count) };
    }
}

#[pinned_drop]
impl<H: ReturnCallbacks> PinnedDrop for RawRetprobe<H> {
    fn drop(self: Pin<&mut Self>) {
        if self.is_registered.get() && delist_one(self.kretprobe.get()) {
            // SAFETY: Registered by the type invariant. The function waits until no handler runs,
            // and calls that return later do not access it. So the fields dropped after this are
            // unused.
            unsafe { bindings::unregister_kretprobe(self.kretprobe.get()) };
        }
    }
}
