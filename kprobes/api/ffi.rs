// SPDX-License-Identifier: GPL-2.0

//! Calls to the C interface, and the callbacks that it makes.
//!
//! Contexts: callbacks, and what handlers call, any, NMI included; the rest process.

use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::ptr::without_provenance;
use core::ptr::without_provenance_mut;

use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

use crate::builder::Place;
use crate::context::Next;
use crate::context::ProbeCtx;
use crate::error::must_sleep;
use crate::error::ProbeError;
use crate::probe::ProbeHandler;

/// Permission to change the registers of probed code.
pub struct Alter(());

impl Alter {
    /// # Safety
    ///
    /// What is changed by means of this leaves the probed code, its callers and what they call as sound as
    /// they were: the values are ones that they could have had, and where execution goes on, it could have
    /// gone on in this state.
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// The type of the C functions that take these types.
#[doc(hidden)]
#[macro_export]
macro_rules! c_function {
    ($($type:ty),*) => { unsafe extern "C" fn($($type),*) -> _ };
}

extern "C" {
    /// `kprobes/api/just_return.c`
    fn ferro_just_return();
}

/// The address of a function that only returns.
pub(crate) fn just_return() -> usize {
    (ferro_just_return as unsafe extern "C" fn() as *const ()).addr()
}

/// Reads memory of the kernel, if it is there.
#[inline]
pub(crate) fn read_kernel<T: FromBytes>(from: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: Any address will do for the source; the destination has this size.
    let failed = unsafe {
        bindings::copy_from_kernel_nofault(
            value.as_mut_ptr().cast(),
            without_provenance(from),
            size_of::<T>(),
        )
    };
    // SAFETY: All bytes have been written, and any bytes are a `T`.
    (failed == 0).then(|| unsafe { value.assume_init() })
}

/// Writes the stack to the log.
pub(crate) fn dump_stack() {
    // SAFETY: Can be called from any context.
    unsafe { bindings::dump_stack() };
}

/// A `struct kprobe` for `place`, without handlers. `symbol` is its symbol.
pub(crate) fn describe(place: Place<'_>, symbol: Option<&CString>) -> bindings::kprobe {
    bindings::kprobe {
        symbol_name: symbol.map_or(null_mut(), |name| name.as_char_ptr().cast_mut()),
        addr: without_provenance_mut(place.address()),
        offset: place.offset,
        flags: match place.is_disarmed {
            true => bindings::KPROBE_FLAG_DISABLED,
            false => 0,
        },
        ..Default::default()
    }
}

/// What both kinds of probes do with a `struct kprobe`.
///
/// # Invariants
///
/// The pointer is that of a kprobe that stays registered for `'a`.
pub(crate) struct Registered<'a>(&'a Opaque<bindings::kprobe>);

impl<'a> Registered<'a> {
    /// # Safety
    ///
    /// `kprobe` stays registered for `'a`.
    pub(crate) unsafe fn of(kprobe: &'a Opaque<bindings::kprobe>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(kprobe)
    }

    pub(crate) fn address(&self) -> usize {
        // SAFETY: By the type invariant; it changes with registration only.
        unsafe { (&raw const (*self.0.get()).addr).read_volatile() }.addr()
    }

    pub(crate) fn missed(&self) -> usize {
        // SAFETY: By the type invariant; a word that others count up.
        unsafe { (&raw const (*self.0.get()).nmissed).read_volatile() }
    }

    pub(crate) fn is_armed(&self) -> bool {
        // SAFETY: By the type invariant; a word that others change.
        let flags = unsafe { (&raw const (*self.0.get()).flags).read_volatile() };
        flags & (bindings::KPROBE_FLAG_DISABLED | bindings::KPROBE_FLAG_GONE) == 0
    }

    pub(crate) fn arm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        // SAFETY: By the type invariant.
        Ok(to_result(unsafe { bindings::enable_kprobe(self.0.get()) })?)
    }

    pub(crate) fn disarm(&self) -> Result<(), ProbeError> {
        must_sleep()?;
        // SAFETY: By the type invariant.
        Ok(to_result(unsafe {
            bindings::disable_kprobe(self.0.get())
        })?)
    }
}

/// A registered kprobe with its handlers. Its drop sleeps: it belongs into a `Deferred`.
///
/// # Invariants
///
/// `kprobe` is registered, with handlers that take it for a field of this structure.
#[pin_data(PinnedDrop)]
pub(crate) struct RawProbe<H: ProbeHandler> {
    // In the order in which they have to be there.
    handler: H,
    symbol: Option<CString>,
    #[pin]
    kprobe: Opaque<bindings::kprobe>,
}

// SAFETY: Kprobes belong to no thread; handlers are `Send`.
unsafe impl<H: ProbeHandler> Send for RawProbe<H> {}
// SAFETY: Changes of a kprobe take the engine's lock; handlers are `Sync`.
unsafe impl<H: ProbeHandler> Sync for RawProbe<H> {}

impl<H: ProbeHandler> RawProbe<H> {
    pub(crate) fn register(place: Place<'_>, handler: H) -> impl PinInit<Self, ProbeError> {
        let symbol = place.symbol();
        // The name stays where it is when its owner is moved.
        let mut kprobe = describe(place, symbol.as_ref().ok().and_then(Option::as_ref));
        if H::HAS_PRE {
            kprobe.pre_handler = Some(Self::pre);
        }
        if H::HAS_POST {
            kprobe.post_handler = Some(Self::post);
        }
        try_pin_init!(Self {
            handler,
            symbol: symbol?,
            // INVARIANT: Registered here, when the handler is there.
            kprobe <- Opaque::try_ffi_init(move |slot: *mut bindings::kprobe| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(kprobe) };
                // SAFETY: `slot` stays where it is until `drop()`, with its name.
                to_result(unsafe { bindings::register_kprobe(slot) })
            }),
        }? ProbeError)
    }

    fn registered(&self) -> Registered<'_> {
        // SAFETY: By the type invariant.
        unsafe { Registered::of(&self.kprobe) }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.handler
    }

    pub(crate) fn address(&self) -> usize {
        self.registered().address()
    }

    pub(crate) fn missed(&self) -> usize {
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

    /// The handler that belongs to a kprobe.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, which stays for `'a`.
    #[inline]
    unsafe fn handler_of<'a>(kprobe: *mut bindings::kprobe) -> &'a H {
        let field = Opaque::cast_from(kprobe).cast_mut();
        // SAFETY: By the rules of this function.
        let this = unsafe { container_of!(field, Self, kprobe) };
        // SAFETY: As above; it was there before the kprobe was registered.
        unsafe { &(*this).handler }
    }

    /// Called by the engine before the instruction.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn pre(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
        // SAFETY: By the rules of this function; unregistering waits for it.
        let handler = unsafe { Self::handler_of(kprobe) };
        // SAFETY: As above.
        let ip = unsafe { (*kprobe).addr }.addr();
        // SAFETY: By the rules of this function.
        let regs = unsafe { &mut *regs };
        let next = handler.pre(&mut ProbeCtx::new(regs, ip));
        match next {
            Next::Continue => 0,
            Next::Elsewhere(destination) => {
                regs.ip = destination.address();
                1
            }
        }
    }

    /// Called by the engine after the instruction.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn post(
        kprobe: *mut bindings::kprobe,
        regs: *mut bindings::pt_regs,
        _flags: usize,
    ) {
        // SAFETY: By the rules of this function; unregistering waits for it.
        let handler = unsafe { Self::handler_of(kprobe) };
        // SAFETY: By the rules of this function.
        let regs = unsafe { &mut *regs };
        let ip = regs.ip;
        handler.post(&mut ProbeCtx::new(regs, ip));
    }
}

#[pinned_drop]
impl<H: ProbeHandler> PinnedDrop for RawProbe<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. Waits until no handler runs.
        unsafe { bindings::unregister_kprobe(self.kprobe.get()) };
    }
}
