// SPDX-License-Identifier: GPL-2.0

//! Kprobes, registered at the C interface, and their callbacks.
//!
//! Contexts: callbacks any, NMI included; the rest process.

use ferro_sys::bindings;
use ferro_sys::code::kallsyms;
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
use super::leaked_probes::IS_MAINLINE;
use super::permissions::Destination;
use super::regs::Regs;

/// Bytes of the instruction that ftrace patches.
const FTRACE_SITE_SIZE: usize = 5;

/// Callbacks of a hit, on several CPUs at a time.
pub(crate) trait Callbacks: Send + Sync + 'static {
    /// True if there is a callback before the instruction.
    const CALLS_BEFORE: bool;
    /// True if there is a callback after the instruction.
    const CALLS_AFTER: bool;
    /// True if [`Callbacks::before`] may return an address.
    const MAY_GO_ELSEWHERE: bool;

    /// Runs before the instruction at `address`. Returns the address to continue at if not there.
    fn before(&self, regs: &mut Regs, address: usize) -> Option<Destination>;

    /// Runs after the instruction, before the one at `next`.
    fn after(&self, regs: &mut Regs, next: usize);
}

/// Registered kprobe with its handlers. The drop sleeps: wrap this in a `Deferred`.
///
/// # Invariants
///
/// `kprobe` is registered, with handlers that take it for a field of this structure. Or, unless
/// `is_registered`, it is not registered, and no handler is running. It is registered except in an
/// [`Unregistered`] and during the drop.
#[pin_data(PinnedDrop)]
pub(crate) struct RawProbe<H: Callbacks> {
    // In order of initialisation.
    handler: H,
    target: OwnedTarget,
    #[pin]
    kprobe: Opaque<bindings::kprobe>,
    is_registered: IsRegistered,
}

// SAFETY: Any thread may unregister a kprobe, regardless of the registering thread; handlers are
// `Send`.
unsafe impl<H: Callbacks> Send for RawProbe<H> {}
// SAFETY: A shared reference reaches only single words of the kprobe, and functions of the engine,
// which take its lock; handlers are `Sync`. Only the owner uses `is_registered`.
unsafe impl<H: Callbacks> Sync for RawProbe<H> {}

impl<H: Callbacks> RawProbe<H> {
    /// Prepares a probe. Errors: no memory.
    pub(crate) fn unregistered(target: OwnedTarget, handler: H) -> Result<Unregistered<Self>> {
        Unregistered::new(try_pin_init!(Self {
            handler,
            target,
            // INVARIANT: Not registered, as `is_registered` says.
            kprobe: Opaque::zeroed(),
            is_registered: IsRegistered::no(),
        }? Error))
    }

    /// Returns the registered kprobe.
    pub(crate) fn registered(&self) -> Registered<'_> {
        // SAFETY: Registered by the type invariant until `drop()`, which this borrow precedes.
        unsafe { Registered::new(&self.kprobe) }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.handler
    }

    /// Returns the handler of a kprobe.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, which stays for `'a`.
    #[inline]
    unsafe fn handler_of<'a>(kprobe: *mut bindings::kprobe) -> &'a H {
        let field = Opaque::cast_from(kprobe).cast_mut();
        // SAFETY: This field of a `Self`, by the caller's guarantee.
        let this = unsafe { container_of!(field, Self, kprobe) };
        // SAFETY: The caller guarantees that the `Self` stays for `'a`; its handler is initialised
        // before the kprobe is.
        unsafe { &(*this).handler }
    }

    /// Handles a hit before the instruction, called by the engine.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn pre(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
        // SAFETY: The caller, the engine, passes the registered kprobe. Unregistering it waits for
        // this call, and the `Self` is dropped after that.
        let handler = unsafe { Self::handler_of(kprobe) };
        // SAFETY: The kprobe is registered, and no code writes this word while it is.
        let address = unsafe { (*kprobe).addr }.addr();
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        if H::CALLS_BEFORE {
            if let Some(destination) = handler.before(regs, address) {
                regs.go_on_at(destination);
                return 1;
            }
        }
        // SAFETY: The kprobe is registered, and no code writes this word while it is.
        if IS_MAINLINE && H::CALLS_AFTER && unsafe { (*kprobe).post_handler }.is_none() {
            regs.with_ip(address.wrapping_add(FTRACE_SITE_SIZE), |regs, next| {
                handler.after(regs, next)
            });
        }
        0
    }

    /// Handles a hit after the instruction, called by the engine.
    ///
    /// # Safety
    ///
    /// `kprobe` is a field of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn post(
        kprobe: *mut bindings::kprobe,
        regs: *mut bindings::pt_regs,
        _flags: usize,
    ) {
        // SAFETY: The caller, the engine, passes the registered kprobe. Unregistering it waits for
        // this call, and the `Self` is dropped after that.
        let handler = unsafe { Self::handler_of(kprobe) };
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        let next = regs.ip();
        if H::CALLS_AFTER {
            handler.after(regs, next);
        }
    }
}

// SAFETY: The kprobe is a pinned field, and another field owns its symbol's name. The handlers take
// it for that field, and `drop()` unregisters it.
unsafe impl<H: Callbacks> InEngine for RawProbe<H> {
    type Struct = bindings::kprobe;

    fn in_engine(&self) -> *mut bindings::kprobe {
        self.kprobe.get()
    }

    fn fresh(&self) -> bindings::kprobe {
        let mut kprobe = self.target.kprobe();
        // Mainline's engine chooses one of two ftrace_ops by the post handler. A post handler that
        // joins another probe at the site makes the engine disarm the wrong one later. So such a
        // probe has no post handler, and `pre()` calls `Callbacks::after()`.
        // Mainline's engine puts no jump in place of a probe with a post handler. A jump ignores
        // another address to continue at.
        let keeps_breakpoint = IS_MAINLINE && H::CALLS_BEFORE && H::MAY_GO_ELSEWHERE;
        let target = || self.target.resolved();
        let is_at_ftrace_site = IS_MAINLINE
            && (H::CALLS_AFTER || keeps_breakpoint)
            && target().is_some_and(kallsyms::is_probed_by_ftrace);
        if H::CALLS_BEFORE || is_at_ftrace_site {
            kprobe.pre_handler = Some(Self::pre);
        }
        if (H::CALLS_AFTER || keeps_breakpoint) && !is_at_ftrace_site {
            kprobe.post_handler = Some(Self::post);
        }
        kprobe
    }

    fn is_registered(&self) -> &IsRegistered {
        &self.is_registered
    }

    fn handlers() -> [usize; 2] {
        let mut handlers = [0; 2];
        // No code is generated for callbacks that are not called.
        if H::CALLS_BEFORE || IS_MAINLINE {
            handlers[0] = (Self::pre as *const ()).addr();
        }
        if H::CALLS_AFTER || IS_MAINLINE {
            handlers[1] = (Self::post as *const ()).addr();
        }
        handlers
    }

    unsafe fn register(all: *mut *mut bindings::kprobe, count: c_int) -> c_int {
        // SAFETY: By the rules of this function.
        unsafe { bindings::register_kprobes(all, count) }
    }

    unsafe fn unregister(all: *mut *mut bindings::kprobe, count: c_int) {
        // SAFETY: By the rules of this function.
        unsafe { bindings::unregister_kprobes(all, count) };
    }
}

#[pinned_drop]
impl<H: Callbacks> PinnedDrop for RawProbe<H> {
    fn drop(self: Pin<&mut Self>) {
        if self.is_registered.get() && delist_one(self.kprobe.get()) {
            // SAFETY: Registered by the type invariant. The function waits until no handler runs,
            // so the fields dropped after this are unused.
            unsafe { bindings::unregister_kprobe(self.kprobe.get()) };
        }
    }
}
