// SPDX-License-Identifier: GPL-2.0

//! Probes on instructions of user space, by `<linux/uprobes.h>`, in all processes that map the
//! file, including later ones.
//!
//! Contexts: callbacks in the probed process; they may sleep. The rest process.

use ferro_sys::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::probed_file::ProbedFile;
use super::regs::Regs;
use super::unregister_stage::Batch;
use super::unregister_stage::Stage;

/// Handler of hits, which several processes may call at the same time.
pub(crate) trait UprobeHandler: Send + Sync + 'static {
    /// Handles a hit before the instruction.
    fn hit(&self, regs: Regs<'_>);
}

/// Registered uprobe.
///
/// # Invariants
///
/// `uprobe` was returned by the registration of `consumer`. `stage` tells if the uprobe is
/// unregistered.
#[pin_data(PinnedDrop)]
pub(crate) struct UserProbe<H: UprobeHandler> {
    // Initialised first, as handlers use it once the consumer is registered.
    handler: H,
    #[pin]
    consumer: Opaque<bindings::uprobe_consumer>,
    uprobe: *mut bindings::uprobe,
    stage: Stage,
    /// File with the inode that the uprobe is on.
    file: ProbedFile,
}

// SAFETY: Any thread may unregister a uprobe; handlers are `Send`.
unsafe impl<H: UprobeHandler> Send for UserProbe<H> {}
// SAFETY: A shared reference gives access to the handler only, which is `Sync`.
unsafe impl<H: UprobeHandler> Sync for UserProbe<H> {}

impl<H: UprobeHandler> UserProbe<H> {
    /// Registers a uprobe. Errors: -EINVAL for an offset outside the file, -EIO if the file cannot
    /// be mapped for execution, -ENOTSUPP for an instruction that cannot be probed, and others.
    pub(crate) fn register(file: ProbedFile, offset: u64, handler: H) -> impl PinInit<Self, Error> {
        let consumer = bindings::uprobe_consumer {
            handler: Some(Self::handle),
            ..Default::default()
        };
        let inode = file.inode();
        try_pin_init!(&this in Self {
            handler,
            consumer <- Opaque::try_ffi_init(move |slot: *mut bindings::uprobe_consumer| {
                // SAFETY: By the rules of `try_ffi_init()` the slot is memory for a consumer, used
                // only here.
                unsafe { slot.write(consumer) };
                Ok::<(), Error>(())
            }),
            uprobe: {
                let offset = bindings::loff_t::try_from(offset).map_err(|_| EINVAL)?;
                // SAFETY: The pointer is to the structure that is being initialised.
                let consumer = Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).consumer });
                // SAFETY: The file, which this owns, keeps the inode. The consumer is pinned, and
                // stays until `drop()` has unregistered it. The callback requires it to be the
                // field of such a structure with an initialised `handler`, and it is.
                let uprobe = unsafe { bindings::uprobe_register(inode, offset, 0, consumer) };
                // SAFETY: The function only compares the pointer; it does not dereference it.
                to_result(unsafe { bindings::ferro_dprobes_uprobe_error(uprobe) })?;
                // INVARIANT: The registration has succeeded.
                uprobe
            },
            stage: Stage::new(),
            file,
        }? Error)
    }

    /// Unregisters uprobes, and waits once until none of their handlers runs. Skips those that are
    /// unregistered already.
    pub(crate) fn unregister_all<'a>(probes: impl Iterator<Item = &'a Self> + Clone) {
        let batch = Batch::new();
        let mut any = false;
        for probe in probes.clone() {
            any |= probe.unregister(&batch);
        }
        if any {
            // SAFETY: No requirement.
            unsafe { bindings::uprobe_unregister_sync() };
            // The second pass may yield probes of other batches: `finish()` skips them.
            probes.for_each(|probe| probe.stage.finish(&batch));
        }
    }

    /// Returns true if processes that open the file by its name later will execute the probed code.
    pub(crate) fn is_current(&self) -> bool {
        self.file.is_current()
    }

    /// Unregisters the uprobe. Returns true if it was still registered. Handlers may still be
    /// running.
    fn unregister(&self, batch: &Batch) -> bool {
        let is_first = self.stage.begin_unregister(batch);
        if is_first {
            // SAFETY: By the type invariant it is registered, with this consumer:
            // `begin_unregister()` is true only once.
            unsafe { bindings::uprobe_unregister_nosync(self.uprobe, self.consumer.get()) };
        }
        is_first
    }

    /// Handles a hit before the instruction, called by the kernel. Returns 0: the probe stays.
    ///
    /// # Safety
    ///
    /// `consumer` is a field of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn handle(
        consumer: *mut bindings::uprobe_consumer,
        regs: *mut bindings::pt_regs,
        _data: *mut u64,
    ) -> c_int {
        let field = Opaque::cast_from(consumer).cast_mut();
        // SAFETY: The kernel passes the consumer that was registered, which is this field of a
        // `Self`.
        let this = unsafe { container_of!(field, Self, consumer) };
        // SAFETY: Unregistering waits for this call, and the `Self` is freed after that. The
        // handler was initialised before.
        let handler = unsafe { &(*this).handler };
        // SAFETY: The caller guarantees that they belong to this function.
        if let Some(regs) = unsafe { Regs::from_raw(regs) } {
            handler.hit(regs);
        }
        0
    }
}

#[pinned_drop]
impl<H: UprobeHandler> PinnedDrop for UserProbe<H> {
    fn drop(self: Pin<&mut Self>) {
        self.unregister(&Batch::new());
        if self.stage.may_be_called() {
            // SAFETY: No requirement. It waits until no handler runs, so that fields dropped after
            // this are no longer used.
            unsafe { bindings::uprobe_unregister_sync() };
        }
    }
}
