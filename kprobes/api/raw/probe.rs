// SPDX-License-Identifier: GPL-2.0

//! Kprobes, registered at the C interface, and the callbacks that it makes.
//!
//! Contexts: callbacks any, NMI included; the rest process.

use kernel::bindings;
use kernel::container_of;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::batch::InEngine;
use super::batch::IsRegistered;
use super::batch::Unregistered;
use super::kprobe::Registered;
use super::kprobe::Target;
use super::modify_token::Destination;
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
/// them is running. It is registered but in an [`Unregistered`], and when it is dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct RawProbe<H: Callbacks> {
    // In the order in which they have to be there.
    handler: H,
    target: Target,
    #[pin]
    kprobe: Opaque<bindings::kprobe>,
    is_registered: IsRegistered,
}

// SAFETY: Any thread may unregister a kprobe, whichever has registered it; handlers are `Send`.
unsafe impl<H: Callbacks> Send for RawProbe<H> {}
// SAFETY: What a shared reference reaches of the kprobe are single words, and functions of the engine, which take its lock;
// handlers are `Sync`. Only who owns it uses `is_registered`.
unsafe impl<H: Callbacks> Sync for RawProbe<H> {}

impl<H: Callbacks> RawProbe<H> {
    /// Prepares one. Errors: no memory.
    pub(crate) fn unregistered(target: Target, handler: H) -> Result<Unregistered<Self>> {
        Unregistered::new(try_pin_init!(Self {
            handler,
            target,
            // INVARIANT: Not registered, as `is_registered` says.
            kprobe: Opaque::zeroed(),
            is_registered: IsRegistered::no(),
        }? Error))
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

// SAFETY: The kprobe is a field that is pinned, and its symbol's name is owned by another one; the handlers take it for that field, and
// `drop()` unregisters it.
unsafe impl<H: Callbacks> InEngine for RawProbe<H> {
    type Struct = bindings::kprobe;

    fn in_engine(&self) -> *mut bindings::kprobe {
        self.kprobe.get()
    }

    fn fresh(&self) -> bindings::kprobe {
        let mut kprobe = self.target.kprobe();
        if H::CALLS_BEFORE {
            kprobe.pre_handler = Some(Self::pre);
        }
        if H::CALLS_AFTER {
            kprobe.post_handler = Some(Self::post);
        }
        kprobe
    }

    fn is_registered(&self) -> &IsRegistered {
        &self.is_registered
    }

    fn handlers() -> [usize; 2] {
        let mut handlers = [0; 2];
        // Of the others there is no code.
        if H::CALLS_BEFORE {
            handlers[0] = (Self::pre as *const ()).addr();
        }
        if H::CALLS_AFTER {
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
        if self.is_registered.get() {
            // SAFETY: By the type invariant it is registered. The function waits until no handler runs, so that what is
            // dropped after this is no longer used.
            unsafe { bindings::unregister_kprobe(self.kprobe.get()) };
        }
    }
}
