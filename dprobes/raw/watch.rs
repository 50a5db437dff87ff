// SPDX-License-Identifier: GPL-2.0

//! Watchpoints: debug registers of all CPUs, by `<linux/hw_breakpoint.h>` (`watch.c`).
//!
//! Contexts: callbacks as an NMI's, with interrupts off; the rest process.

use ferro_core::rpn::PointKind;
use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::regs::Regs;
use super::unregister_stage::Batch;
use super::unregister_stage::Stage;

/// Looks at CPUs that come and go, for watchpoints that are registered and dropped while this is there.
pub(crate) struct Cpus(c_int);

impl Cpus {
    /// Errors: -ENOSPC, -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirement. What it registers is code of this module, whose exit drops this.
        let state = unsafe { bindings::ferro_dprobes_watch_begin() };
        to_result(state)?;
        Ok(Self(state))
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        // SAFETY: It is what `new()` has got, and nobody else gives it back.
        unsafe { bindings::ferro_dprobes_watch_end(self.0) };
    }
}

/// What a hit calls, on several CPUs at a time.
pub(crate) trait WatchHandler: Send + Sync + 'static {
    /// After a memory access, or before an instruction.
    fn hit(&self, regs: Regs<'_>);
}

/// A registered watchpoint.
///
/// # Invariants
///
/// `watch` is what registering has returned, with `_handler` for its context. `stage` says whether it is unregistered.
pub(crate) struct Watch<H: WatchHandler> {
    watch: *mut bindings::ferro_dprobes_watch,
    stage: Stage,
    // Where it is does not change when this is moved.
    _handler: KBox<H>,
}

// SAFETY: Any thread may unregister a watchpoint; handlers are `Send`.
unsafe impl<H: WatchHandler> Send for Watch<H> {}
// SAFETY: A shared reference gives away nothing.
unsafe impl<H: WatchHandler> Sync for Watch<H> {}

impl<H: WatchHandler> Watch<H> {
    /// Errors: -EOPNOTSUPP if the CPU cannot watch this, -ENOSPC or -EBUSY if no debug register is free, -EINVAL if the address is not a
    /// multiple of the length, and others.
    pub(crate) fn register(kind: PointKind, address: u64, len: u8, handler: H) -> Result<Self> {
        let kind = match kind {
            PointKind::WatchExecute => bindings::HW_BREAKPOINT_X,
            PointKind::WatchWrite => bindings::HW_BREAKPOINT_W,
            PointKind::WatchAccess => bindings::HW_BREAKPOINT_RW,
            PointKind::WatchIo | PointKind::Breakpoint => return Err(EOPNOTSUPP),
        };
        let len = match kind {
            // What the kernel wants for execution.
            bindings::HW_BREAKPOINT_X => size_of::<usize>(),
            _ => len.into(),
        };
        let handler = KBox::new(handler, GFP_KERNEL)?;
        // SAFETY: The handler is in a box, which stays until the watchpoint has been unregistered; `triggered()` takes the context
        // for that.
        let watch = unsafe {
            bindings::ferro_dprobes_watch(
                address as usize,
                len,
                kind,
                Some(Self::triggered),
                (&raw const *handler).cast_mut().cast(),
            )
        };
        // SAFETY: Only looks at the pointer.
        to_result(unsafe { bindings::ferro_dprobes_watch_error(watch) })?;
        // INVARIANT: It has succeeded.
        Ok(Self {
            watch,
            stage: Stage::new(),
            _handler: handler,
        })
    }

    /// Unregisters it. Its debug register is free after this; handlers may be running yet.
    pub(crate) fn release(&self) {
        self.leave(&Batch::new());
    }

    /// Unregisters some, and waits once until no handler of all these runs. Those that are already are left alone.
    pub(crate) fn unregister_all<'a>(watches: impl Iterator<Item = &'a Self> + Clone) {
        let batch = Batch::new();
        let mut any = false;
        for watch in watches.clone() {
            any |= watch.leave(&batch);
        }
        if any {
            // SAFETY: No requirement.
            unsafe { bindings::ferro_dprobes_watch_sync() };
            // Also if the iterator has others now: those are not of this batch.
            watches.for_each(|watch| watch.stage.is_over(&batch));
        }
    }

    /// Whether it was still registered, and now is not. Handlers may be running yet.
    fn leave(&self, batch: &Batch) -> bool {
        let is_first = self.stage.leaves(batch);
        if is_first {
            // SAFETY: By the type invariant it is registered: nobody else has come here.
            unsafe { bindings::ferro_dprobes_unwatch(self.watch) };
        }
        is_first
    }

    /// Called by the kernel when it has happened.
    ///
    /// # Safety
    ///
    /// `event` is one of a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn triggered(
        event: *mut bindings::perf_event,
        _data: *mut bindings::perf_sample_data,
        regs: *mut bindings::pt_regs,
    ) {
        // SAFETY: The kernel passes an event that was registered.
        let handler: *const H = unsafe { bindings::ferro_dprobes_watch_context(event) }.cast();
        // SAFETY: Unregistering waits for this call, and the handler goes after that.
        let handler = unsafe { &*handler };
        // SAFETY: The caller guarantees that they belong to this function.
        if let Some(regs) = unsafe { Regs::from_raw(regs) } {
            handler.hit(regs);
        }
    }
}

impl<H: WatchHandler> Drop for Watch<H> {
    fn drop(&mut self) {
        self.leave(&Batch::new());
        if self.stage.may_call() {
            // SAFETY: No requirement. It waits until no handler runs, so that what is dropped after this is no longer used.
            unsafe { bindings::ferro_dprobes_watch_sync() };
        }
    }
}
