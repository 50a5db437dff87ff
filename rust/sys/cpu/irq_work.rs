// SPDX-License-Identifier: GPL-2.0

//! Work deferred from contexts that cannot do it, NMI included.
//!
//! Contexts: queue: any; wait: process.

use crate::bindings;
use kernel::prelude::*;
use kernel::types::Opaque;

/// An object that contains an [`IrqWork`].
///
/// # Safety
///
/// `OFFSET` is the offset in bytes of an `IrqWork` within `Self`, made with
/// `IrqWork::new::<Self>()`. The object is freed only after a call of [`IrqWork::sync`] at a time
/// when no CPU can queue the work.
pub unsafe trait HasIrqWork: Sync + Sized {
    /// Offset of the `IrqWork`.
    const OFFSET: usize;

    /// Does the work. Context: hard irq.
    fn run(&self);
}

// RUST-KERNEL: there is no `kernel::irq_work`; ours until there is.
/// A `struct irq_work`.
#[repr(transparent)]
#[pin_data]
pub struct IrqWork {
    #[pin]
    work: Opaque<bindings::irq_work>,
}

// SAFETY: The structure has no owner: any task may initialise, queue, wait for and free it.
unsafe impl Send for IrqWork {}
// SAFETY: A shared reference allows queueing and waiting, which any number of CPUs may do at once.
unsafe impl Sync for IrqWork {}

impl IrqWork {
    /// Initialises work that calls `T::run()` of the object that contains it.
    ///
    /// # Safety
    ///
    /// The work is initialised in place as the field of a `T` that `T::OFFSET` names.
    pub unsafe fn new<T: HasIrqWork>() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid.
            work <- Opaque::ffi_init(|slot| unsafe {
                bindings::ferro_init_irq_work(slot, Some(run::<T>))
            }),
        })
    }

    /// Queues the work on this CPU, unless it is queued already.
    #[inline]
    pub fn queue(&self) {
        // SAFETY: The work is initialised and, by the rules of `HasIrqWork`, lives until it ran.
        unsafe { bindings::irq_work_queue(self.work.get()) };
    }

    /// Waits until the work is not queued and not running. Context: process.
    pub fn sync(&self) {
        // SAFETY: The work is initialised.
        unsafe { bindings::irq_work_sync(self.work.get()) };
    }
}

/// A value with a function for its work.
pub trait OnIrqWork: Send + Sync {
    /// Does the work. Context: hard irq.
    fn on_irq_work(&self);
}

/// A value with work. The drop waits for the work, in process context.
#[pin_data(PinnedDrop)]
pub struct WithIrqWork<T: OnIrqWork> {
    #[pin]
    work: IrqWork,
    #[pin]
    value: T,
}

impl<T: OnIrqWork> WithIrqWork<T> {
    /// Makes the value; the work is not queued.
    pub fn new(value: impl PinInit<T>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: This initialises the field that `OFFSET` names.
            work <- unsafe { IrqWork::new::<Self>() },
            value <- value,
        })
    }

    /// [`IrqWork::queue`].
    #[inline]
    pub fn queue(&self) {
        self.work.queue();
    }

    /// [`IrqWork::sync`].
    pub fn sync(&self) {
        self.work.sync();
    }
}

// SAFETY: `new()`, the only maker, initialises the field with this offset for this type. A pinned
// object is dropped before it is freed. The drop waits for the work, when no reference is left to
// queue it.
unsafe impl<T: OnIrqWork> HasIrqWork for WithIrqWork<T> {
    const OFFSET: usize = core::mem::offset_of!(Self, work);

    fn run(&self) {
        self.value.on_irq_work();
    }
}

#[pinned_drop]
impl<T: OnIrqWork> PinnedDrop for WithIrqWork<T> {
    fn drop(self: Pin<&mut Self>) {
        self.work.sync();
    }
}

impl<T: OnIrqWork> core::ops::Deref for WithIrqWork<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

/// # Safety
///
/// `work` is embedded in a live `T`, at its offset.
unsafe extern "C" fn run<T: HasIrqWork>(work: *mut bindings::irq_work) {
    // SAFETY: By the rules of `HasIrqWork` the work is embedded in a live `T`, at this offset.
    unsafe { &*work.byte_sub(T::OFFSET).cast::<T>() }.run();
}
