// SPDX-License-Identifier: GPL-2.0

//! Calls to the C interface of return probes, and the callbacks that it makes.
//!
//! Contexts: callbacks any, NMI included; the rest process.

use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

use crate::builder::Place;
use crate::context::ProbeCtx;
use crate::error::ProbeError;
use crate::ffi::describe;
use crate::ffi::Registered;
use crate::retprobe::Keep;
use crate::retprobe::RetprobeHandler;

/// Bytes that the calls of a return probe may take.
const MOST_BYTES: usize = 64 << 20;

/// A registered kretprobe with its handlers. Its drop sleeps: it belongs into a `Deferred`.
///
/// # Invariants
///
/// `kretprobe` is registered, with handlers that take it for a field of this structure.
#[pin_data(PinnedDrop)]
pub(crate) struct RawRetprobe<H: RetprobeHandler> {
    // In the order in which they have to be there.
    handler: H,
    symbol: Option<CString>,
    #[pin]
    kretprobe: Opaque<bindings::kretprobe>,
}

// SAFETY: Kretprobes belong to no thread; handlers are `Send`.
unsafe impl<H: RetprobeHandler> Send for RawRetprobe<H> {}
// SAFETY: Changes of a kretprobe take the engine's lock; handlers are `Sync`.
unsafe impl<H: RetprobeHandler> Sync for RawRetprobe<H> {}

impl<H: RetprobeHandler> RawRetprobe<H> {
    /// Instances are aligned as words are, and hold no more than this.
    const DATA_FITS: () = {
        assert!(align_of::<H::Data>() <= align_of::<usize>());
        assert!(size_of::<H::Data>() <= bindings::KRETPROBE_MAX_DATA_SIZE as usize);
    };

    /// The most calls that can be followed at a time. The C engine computes their bytes in an `int`, unchecked.
    const MOST: usize =
        MOST_BYTES / (size_of::<bindings::kretprobe_instance>() + size_of::<H::Data>());

    pub(crate) fn register(
        place: Place<'_>,
        max_active: u32,
        handler: H,
    ) -> impl PinInit<Self, ProbeError> {
        let () = Self::DATA_FITS;
        let maxactive = match max_active as usize <= Self::MOST {
            true => c_int::try_from(max_active).map_err(|_| ProbeError::TooMany),
            false => Err(ProbeError::TooMany),
        };
        let symbol = place.symbol();
        // Data has to be zeroed at the entry, whether there is a handler or not.
        let has_entry = H::HAS_ENTRY || size_of::<H::Data>() != 0;
        let kretprobe = bindings::kretprobe {
            // The name stays where it is when its owner is moved.
            kp: describe(place, symbol.as_ref().ok().and_then(Option::as_ref)),
            handler: Some(Self::returned),
            entry_handler: if has_entry { Some(Self::entry) } else { None },
            maxactive: maxactive.unwrap_or(0),
            data_size: size_of::<H::Data>(),
            ..Default::default()
        };
        try_pin_init!(Self {
            handler,
            symbol: symbol?,
            // INVARIANT: Registered here, when the handler is there.
            kretprobe <- Opaque::try_ffi_init(move |slot: *mut bindings::kretprobe| {
                maxactive?;
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(kretprobe) };
                // SAFETY: `slot` stays where it is until `drop()`, with its name.
                to_result(unsafe { bindings::register_kretprobe(slot) })
            }),
        }? ProbeError)
    }

    fn registered(&self) -> Registered<'_> {
        // SAFETY: Makes an address only.
        let kprobe = unsafe { &raw const (*self.kretprobe.get()).kp };
        // SAFETY: A field of `self`; `Opaque` changes nothing of its layout.
        let kprobe = unsafe { &*Opaque::cast_from(kprobe) };
        // SAFETY: By the type invariant.
        unsafe { Registered::of(kprobe) }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.handler
    }

    pub(crate) fn address(&self) -> usize {
        self.registered().address()
    }

    pub(crate) fn missed(&self) -> usize {
        // SAFETY: By the type invariant; a word that others count up.
        let missed = unsafe { (&raw const (*self.kretprobe.get()).nmissed).read_volatile() };
        missed.try_into().unwrap_or(usize::MAX)
    }

    pub(crate) fn nested(&self) -> usize {
        self.registered().missed()
    }

    pub(crate) fn arm(&self) -> Result<(), ProbeError> {
        self.registered().arm()
    }

    pub(crate) fn disarm(&self) -> Result<(), ProbeError> {
        self.registered().disarm()
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.registered().is_armed()
    }

    /// The probe that an instance belongs to.
    ///
    /// # Safety
    ///
    /// `instance` is one of a `Self` that is registered.
    #[inline]
    unsafe fn of_instance(instance: *mut bindings::kretprobe_instance) -> *const Self {
        // SAFETY: By the rules of this function; neither pointer changes.
        let kretprobe = unsafe { (*(*instance).node.rethook).data };
        let field = Opaque::cast_from(kretprobe.cast::<bindings::kretprobe>()).cast_mut();
        // SAFETY: A rethook's data is the kretprobe, as `get_kretprobe()` has it.
        unsafe { container_of!(field, Self, kretprobe) }
    }

    /// The data of a call.
    ///
    /// # Safety
    ///
    /// As for [`Self::of_instance`].
    #[inline]
    unsafe fn data_of(instance: *mut bindings::kretprobe_instance) -> *mut H::Data {
        // SAFETY: By the rules of this function; makes an address only.
        unsafe { (&raw mut (*instance).data).cast() }
    }

    /// Called by the engine at the entry of the function.
    ///
    /// # Safety
    ///
    /// `instance` is one of a registered `Self`; it and `regs` belong to this function until it returns.
    unsafe extern "C" fn entry(
        instance: *mut bindings::kretprobe_instance,
        regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: By the rules of this function; unregistering waits for it.
        let this = unsafe { Self::of_instance(instance) };
        // SAFETY: As above.
        let data = unsafe { Self::data_of(instance) };
        // SAFETY: There is room for a `Data`, which can be zero, and nobody else has this instance.
        unsafe { data.write_bytes(0, 1) };
        if !H::HAS_ENTRY {
            return 0;
        }
        // SAFETY: It was there before the probe was registered.
        let handler = unsafe { &(*this).handler };
        // SAFETY: As above.
        let ip = unsafe { (*(*this).kretprobe.get()).kp.addr }.addr();
        // SAFETY: By the rules of this function.
        let regs = unsafe { &mut *regs };
        // SAFETY: Written above.
        let data = unsafe { &mut *data };
        match handler.entry(&mut ProbeCtx::new(regs, ip), data) {
            Keep::Yes => 0,
            Keep::No => 1,
        }
    }

    /// Called by the engine when the function has returned.
    ///
    /// # Safety
    ///
    /// `instance` is one of a registered `Self`; it and `regs` belong to this function until it returns.
    unsafe extern "C" fn returned(
        instance: *mut bindings::kretprobe_instance,
        regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: By the rules of this function; unregistering waits for it.
        let this = unsafe { Self::of_instance(instance) };
        // SAFETY: It was there before the probe was registered.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The instance is ours until this returns.
        let ip = unsafe { (*instance).node.ret_addr };
        // SAFETY: By the rules of this function.
        let regs = unsafe { &mut *regs };
        // SAFETY: `entry()` has written it, or it is of no size; nobody else has this instance.
        let data = unsafe { &mut *Self::data_of(instance) };
        handler.returned(&mut ProbeCtx::new(regs, ip), data);
        0
    }
}

#[pinned_drop]
impl<H: RetprobeHandler> PinnedDrop for RawRetprobe<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. Waits until no handler runs; instances that are still out do not
        // look at it any more.
        unsafe { bindings::unregister_kretprobe(self.kretprobe.get()) };
    }
}
