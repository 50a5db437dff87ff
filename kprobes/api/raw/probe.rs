// SPDX-License-Identifier: GPL-2.0

//! Kprobes, registered at the C interface, and the callbacks that it makes.
//!
//! Contexts: callbacks any, NMI included; the rest process.

use core::cell::Cell;
use core::ptr::null_mut;

use ferro_sys::sync::deferred::Deferred;
use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::types::Opaque;

use super::alter::Destination;
use super::kprobe::Registered;
use super::kprobe::Target;
use super::regs::Regs;

/// How many are unregistered at once.
pub(crate) const BATCH: usize = 32;

/// What a hit calls, on several CPUs at a time.
pub(crate) trait Callbacks: Send + Sync + 'static {
    /// Whether there is something to call before the instruction.
    const CALLS_BEFORE: bool;
    /// Whether there is something to call after the instruction.
    const CALLS_AFTER: bool;

    /// Before the instruction at `address`. Returns where to go on if that is not there.
    fn before(&self, regs: &mut Regs, address: usize) -> Option<Destination>;

    /// After the instruction; the one at `next` comes next.
    fn after(&self, regs: &mut Regs, next: usize);
}

/// A registered kprobe with its handlers. Its drop sleeps: it belongs in a `Deferred`.
///
/// # Invariants
///
/// `kprobe` is registered, with handlers that take it for a field of this structure; or, if `is_gone`, it is not, and none of
/// them is running.
#[pin_data(PinnedDrop)]
pub(crate) struct RawProbe<H: Callbacks> {
    // In the order in which they have to be there.
    handler: H,
    symbol: Option<CString>,
    #[pin]
    kprobe: Opaque<bindings::kprobe>,
    is_gone: Cell<bool>,
}

// SAFETY: Any thread may unregister a kprobe, whichever has registered it; handlers are `Send`.
unsafe impl<H: Callbacks> Send for RawProbe<H> {}
// SAFETY: What a shared reference reaches of the kprobe are single words, and functions of the engine, which take its lock;
// handlers are `Sync`. Only who owns it uses `is_gone`.
unsafe impl<H: Callbacks> Sync for RawProbe<H> {}

impl<H: Callbacks> RawProbe<H> {
    pub(crate) fn register(target: Target, handler: H) -> impl PinInit<Self, Error> {
        let mut kprobe = target.kprobe();
        if H::CALLS_BEFORE {
            kprobe.pre_handler = Some(Self::pre);
        }
        if H::CALLS_AFTER {
            kprobe.post_handler = Some(Self::post);
        }
        try_pin_init!(Self {
            handler,
            symbol: target.symbol,
            // INVARIANT: Registered here, when the handler is there.
            kprobe <- Opaque::try_ffi_init(move |slot: *mut bindings::kprobe| {
                // SAFETY: By the rules of `try_ffi_init()` the slot is memory for a kprobe that nobody else uses.
                unsafe { slot.write(kprobe) };
                // SAFETY: The slot is pinned, and the symbol's name owned by the same structure: both stay until `drop()`
                // has unregistered the kprobe. The handlers take it for the field of this structure, which it is.
                to_result(unsafe { bindings::register_kprobe(slot) })
            }),
            is_gone: Cell::new(false),
        }? Error)
    }

    /// Unregisters some, and waits once for the handlers of all. Sleeps. They are the caller's only, who drops them then.
    pub(crate) fn unregister_all(probes: [Option<Deferred<Self>>; BATCH]) {
        let mut kprobes = [null_mut(); BATCH];
        let mut count = 0;
        for (kprobe, probe) in kprobes.iter_mut().zip(probes.iter().flatten()) {
            *kprobe = probe.kprobe.get();
            count += 1;
        }
        // SAFETY: The array has so many pointers. By the type invariant each kprobe is registered; they stay until `probes` is
        // dropped. The function waits until no handler of them runs.
        unsafe { bindings::unregister_kprobes(kprobes.as_mut_ptr(), count) };
        // INVARIANT: They are not registered any more.
        let all = probes.iter().flatten();
        all.for_each(|probe| probe.is_gone.set(true));
    }

    /// The kprobe, as an engine has it.
    pub(crate) fn registered(&self) -> Registered<'_> {
        // SAFETY: By the type invariant it is registered, until `drop()`, which this borrow comes before.
        unsafe { Registered::new(&self.kprobe) }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.handler
    }

    /// The handler that belongs to a kprobe.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, which stays for `'a`.
    #[inline]
    unsafe fn handler_of<'a>(kprobe: *mut bindings::kprobe) -> &'a H {
        let field = Opaque::cast_from(kprobe).cast_mut();
        // SAFETY: The caller guarantees that it is this field of a `Self`.
        let this = unsafe { container_of!(field, Self, kprobe) };
        // SAFETY: The caller guarantees that the `Self` stays for `'a`; its handler is initialised before the kprobe is.
        unsafe { &(*this).handler }
    }

    /// Called by the engine before the instruction.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn pre(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
        // SAFETY: The caller, the engine, passes the kprobe that it was given; unregistering it waits for this call, and
        // the `Self` goes after that.
        let handler = unsafe { Self::handler_of(kprobe) };
        // SAFETY: The kprobe is registered, and this word is not written meanwhile.
        let address = unsafe { (*kprobe).addr }.addr();
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        match handler.before(regs, address) {
            None => 0,
            Some(destination) => {
                regs.go_on_at(destination);
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
        // SAFETY: The caller, the engine, passes the kprobe that it was given; unregistering it waits for this call, and
        // the `Self` goes after that.
        let handler = unsafe { Self::handler_of(kprobe) };
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        let next = regs.ip();
        handler.after(regs, next);
    }
}

#[pinned_drop]
impl<H: Callbacks> PinnedDrop for RawProbe<H> {
    fn drop(self: Pin<&mut Self>) {
        if !self.is_gone.get() {
            // SAFETY: By the type invariant it is registered. The function waits until no handler runs, so that what is
            // dropped after this is no longer used.
            unsafe { bindings::unregister_kprobe(self.kprobe.get()) };
        }
    }
}
