// SPDX-License-Identifier: GPL-2.0

//! Kprobes, registered at the C interface, and the callbacks that it makes.
//!
//! Contexts: callbacks any, NMI included; the rest process.

use core::cell::Cell;

use ferro_sys::sync::deferred::Deferred;
use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::alter::Destination;
use super::kprobe::register_first;
use super::kprobe::Registered;
use super::kprobe::Target;
use super::regs::Regs;

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
/// `kprobe` is registered, with handlers that take it for a field of this structure; or, unless `is_registered`, it is not, and none of
/// them is running. Outside of this file it is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct RawProbe<H: Callbacks> {
    // In the order in which they have to be there.
    handler: H,
    target: Target,
    #[pin]
    kprobe: Opaque<bindings::kprobe>,
    is_registered: Cell<bool>,
}

/// One that is not registered yet.
///
/// # Invariants
///
/// It is not registered, and none of its handlers is running.
pub(crate) struct Unregistered<H: Callbacks>(Deferred<RawProbe<H>>);

impl<H: Callbacks> Unregistered<H> {
    /// Prepares one. Errors: no memory.
    pub(crate) fn new(target: Target, handler: H) -> Result<Self> {
        // INVARIANT: Nobody has registered it.
        Ok(Self(Deferred::new(RawProbe::unregistered(
            target, handler,
        ))?))
    }

    /// Registers some, in their order, up to the first that is refused. Returns those before it, and why. Sleeps.
    pub(crate) fn register_all(
        probes: KVVec<Self>,
    ) -> Result<(KVVec<Deferred<RawProbe<H>>>, Option<Error>)> {
        let mut registered = KVVec::with_capacity(probes.len(), GFP_KERNEL)?;
        let mut kprobes = KVVec::with_capacity(probes.len(), GFP_KERNEL)?;
        let (count, refusal) = register_first(&probes, |some| {
            kprobes.clear();
            for Unregistered(probe) in some {
                let kprobe = probe.kprobe.get();
                // SAFETY: By the type invariant no engine has it, nor does a handler use it; a refused batch is not registered
                // either. What an engine has left in it must not be there when it is registered again.
                unsafe { kprobe.write(RawProbe::<H>::kprobe(&probe.target)) };
                kprobes.push(kprobe, GFP_KERNEL)?;
            }
            let count = c_int::try_from(some.len()).map_err(|_| E2BIG)?;
            // SAFETY: The array has so many pointers, to kprobes that stay in their places, with the names of their symbols, until
            // `drop()` has unregistered them. The handlers take them for fields of the structures, which they are.
            to_result(unsafe { bindings::register_kprobes(kprobes.as_mut_ptr(), count) })?;
            // INVARIANT: They are registered. Only `register_all()` has seen them as something else, which goes on after them.
            some.iter().for_each(|one| one.0.is_registered.set(true));
            Ok(())
        });
        for Unregistered(probe) in probes.into_iter().take(count) {
            registered.push(probe, GFP_KERNEL)?;
        }
        Ok((registered, refusal))
    }
}

// SAFETY: Any thread may unregister a kprobe, whichever has registered it; handlers are `Send`.
unsafe impl<H: Callbacks> Send for RawProbe<H> {}
// SAFETY: What a shared reference reaches of the kprobe are single words, and functions of the engine, which take its lock;
// handlers are `Sync`. Only who owns it uses `is_registered`.
unsafe impl<H: Callbacks> Sync for RawProbe<H> {}

impl<H: Callbacks> RawProbe<H> {
    /// What an engine is given for it.
    fn kprobe(target: &Target) -> bindings::kprobe {
        let mut kprobe = target.kprobe();
        if H::CALLS_BEFORE {
            kprobe.pre_handler = Some(Self::pre);
        }
        if H::CALLS_AFTER {
            kprobe.post_handler = Some(Self::post);
        }
        kprobe
    }

    fn unregistered(target: Target, handler: H) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            handler,
            target,
            // INVARIANT: Not registered, as `is_registered` says.
            kprobe: Opaque::zeroed(),
            is_registered: Cell::new(false),
        }? Error)
    }

    /// Unregisters some, and waits once for the handlers of all, or without memory for those of each. Sleeps.
    pub(crate) fn unregister_all(probes: KVVec<Deferred<Self>>) -> Result {
        let mut kprobes = KVVec::with_capacity(probes.len(), GFP_KERNEL)?;
        for probe in &probes {
            kprobes.push(probe.kprobe.get(), GFP_KERNEL)?;
        }
        let count = c_int::try_from(kprobes.len()).map_err(|_| E2BIG)?;
        // SAFETY: The array has so many pointers. By the type invariant each kprobe is registered; they stay until `probes` is
        // dropped. The function waits until no handler of them runs.
        unsafe { bindings::unregister_kprobes(kprobes.as_mut_ptr(), count) };
        // INVARIANT: They are not registered any more.
        probes
            .iter()
            .for_each(|probe| probe.is_registered.set(false));
        Ok(())
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
        if self.is_registered.get() {
            // SAFETY: By the type invariant it is registered. The function waits until no handler runs, so that what is
            // dropped after this is no longer used.
            unsafe { bindings::unregister_kprobe(self.kprobe.get()) };
        }
    }
}
