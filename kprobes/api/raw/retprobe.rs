// SPDX-License-Identifier: GPL-2.0

//! Kretprobes, registered at the C interface, and the callbacks that it makes.
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
use super::regs::Regs;

/// What a call of the function and its return call, on several CPUs at a time.
pub(crate) trait ReturnCallbacks: Send + Sync + 'static {
    /// What is kept for each call, zero at first.
    type Kept: Zeroable + Copy + Send;

    /// Whether there is something to call at the entry.
    const CALLS_ENTRY: bool;

    /// At the entry, which is at `address`. Returns whether the return is wanted.
    fn entered(&self, regs: &mut Regs, address: usize, data: &mut Self::Kept) -> bool;

    /// The function has returned to `address`.
    fn left(&self, regs: &mut Regs, address: usize, data: &mut Self::Kept);
}

/// Bytes that the calls of a return probe may take.
const MOST_BYTES: usize = 64 << 20;

/// A registered kretprobe with its handlers. Its drop sleeps: it belongs in a `Deferred`.
///
/// # Invariants
///
/// `kretprobe` is registered, with handlers that take it for a field of this structure; or, unless `is_registered`, it is not, and none
/// of them is running. It is registered but in an [`Unregistered`], and when it is dropped.
#[pin_data(PinnedDrop)]
pub(crate) struct RawRetprobe<H: ReturnCallbacks> {
    // In the order in which they have to be there.
    handler: H,
    target: Target,
    /// How many calls can be followed at a time.
    maxactive: c_int,
    #[pin]
    kretprobe: Opaque<bindings::kretprobe>,
    is_registered: IsRegistered,
}

// SAFETY: Any thread may unregister a kretprobe, whichever has registered it; handlers are `Send`.
unsafe impl<H: ReturnCallbacks> Send for RawRetprobe<H> {}
// SAFETY: What a shared reference reaches of the kretprobe are single words, and functions of the engine, which take its
// lock; handlers are `Sync`. Only who owns it uses `is_registered`.
unsafe impl<H: ReturnCallbacks> Sync for RawRetprobe<H> {}

impl<H: ReturnCallbacks> RawRetprobe<H> {
    /// Instances are aligned as words are, and hold no more than this.
    const DATA_FITS: () = {
        assert!(align_of::<H::Kept>() <= align_of::<usize>());
        assert!(size_of::<H::Kept>() <= bindings::KRETPROBE_MAX_DATA_SIZE as usize);
    };

    /// The most calls that can be followed at a time. The C engine computes their bytes in an `int`, unchecked.
    const MOST: usize =
        MOST_BYTES / (size_of::<bindings::kretprobe_instance>() + size_of::<H::Kept>());

    /// Prepares one. Errors: -E2BIG for more calls at a time than there may be, and no memory.
    pub(crate) fn unregistered(
        target: Target,
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

    /// The kprobe at the entry, as an engine has it.
    pub(crate) fn registered(&self) -> Registered<'_> {
        // SAFETY: The kretprobe is a field of `self`, so the kprobe is one, too; only its address is taken.
        let kprobe = unsafe { &raw const (*self.kretprobe.get()).kp };
        // SAFETY: It is there as long as `self`; `Opaque` changes nothing of its layout, and lets others write to it.
        let kprobe = unsafe { &*Opaque::cast_from(kprobe) };
        // SAFETY: By the type invariant it is registered, until `drop()`, which this borrow comes before.
        unsafe { Registered::new(kprobe) }
    }

    pub(crate) fn handler(&self) -> &H {
        &self.handler
    }

    /// Calls that were not followed, as too many were being followed.
    pub(crate) fn missed(&self) -> usize {
        // SAFETY: By the type invariant it is there; the engine counts this word up, in one store.
        let missed = unsafe { (&raw const (*self.kretprobe.get()).nmissed).read_volatile() };
        missed.try_into().unwrap_or(usize::MAX)
    }

    /// The probe that an instance belongs to.
    ///
    /// # Safety
    ///
    /// `instance` is one of a `Self` that is registered.
    #[inline]
    unsafe fn of_instance(instance: *mut bindings::kretprobe_instance) -> *const Self {
        // SAFETY: The caller guarantees that it is an instance; an engine sets both pointers before it hands one out.
        let kretprobe = unsafe { (*(*instance).node.rethook).data };
        let field = Opaque::cast_from(kretprobe.cast::<bindings::kretprobe>()).cast_mut();
        // SAFETY: In both engines that is the kretprobe (`get_kretprobe()` reads it), by the caller's guarantee that of a `Self`.
        unsafe { container_of!(field, Self, kretprobe) }
    }

    /// The data of a call.
    ///
    /// # Safety
    ///
    /// As for [`Self::of_instance`].
    #[inline]
    unsafe fn data_of(instance: *mut bindings::kretprobe_instance) -> *mut H::Kept {
        // SAFETY: The caller guarantees that it is an instance; only the address of its last field is taken.
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
        // SAFETY: The caller, the engine, passes an instance of the kretprobe that it was given.
        let this = unsafe { Self::of_instance(instance) };
        // SAFETY: The instance is one of a `Self`.
        let data = unsafe { Self::data_of(instance) };
        // SAFETY: An instance has `data_size` bytes there, the size of a `Kept`, aligned as `DATA_FITS` has checked; nobody
        // else has it until the call has returned.
        unsafe { data.write_bytes(0, 1) };
        if !H::CALLS_ENTRY {
            return 0;
        }
        // SAFETY: The handler is initialised before the kretprobe is registered, and dropped after it is unregistered, which
        // waits for this call.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The kretprobe is registered, and this word is not written meanwhile.
        let address = unsafe { (*(*this).kretprobe.get()).kp.addr }.addr();
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        // SAFETY: Zeroed above, which is a `Kept` by its trait; nobody else has this instance.
        let data = unsafe { &mut *data };
        match handler.entered(regs, address, data) {
            true => 0,
            false => 1,
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
        // SAFETY: The caller, the engine, passes an instance of the kretprobe that it was given.
        let this = unsafe { Self::of_instance(instance) };
        // SAFETY: The handler is initialised before the kretprobe is registered, and dropped after it is unregistered, which
        // waits for this call.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The instance is this call's, and its engine has noted the return address at the entry.
        let address = unsafe { (*instance).node.ret_addr };
        // SAFETY: The caller guarantees that they belong to this function.
        let regs = unsafe { Regs::from_raw(regs) };
        // SAFETY: `entry()` was called for this instance and has written it, unless a `Kept` has no bytes; nobody else has the
        // instance.
        let data = unsafe { &mut *Self::data_of(instance) };
        handler.left(regs, address, data);
        0
    }
}

// SAFETY: The kretprobe is a field that is pinned, and its symbol's name is owned by another one; the handlers take it for that field,
// and `drop()` unregisters it.
unsafe impl<H: ReturnCallbacks> InEngine for RawRetprobe<H> {
    type Struct = bindings::kretprobe;

    fn in_engine(&self) -> *mut bindings::kretprobe {
        self.kretprobe.get()
    }

    fn fresh(&self) -> bindings::kretprobe {
        let () = Self::DATA_FITS;
        // Data has to be zeroed at the entry, whether there is a handler or not.
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
        if self.is_registered.get() {
            // SAFETY: By the type invariant it is registered. The function waits until no handler runs, and calls that return
            // later do not look at it, so that what is dropped after this is no longer used.
            unsafe { bindings::unregister_kretprobe(self.kretprobe.get()) };
        }
    }
}
