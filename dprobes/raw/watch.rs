// SPDX-License-Identifier: GPL-2.0

//! Watchpoints: debug registers of all CPUs, by `<linux/hw_breakpoint.h>` (`watch.c`).
//!
//! Contexts: callbacks as in an NMI, with interrupts off; the rest process.

use ferro_dprobes_core::PointKind;
use ferro_sys::bindings;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

use super::regs::Regs;
use super::unregister_stage::Batch;
use super::unregister_stage::Stage;

/// CPU hotplug callbacks, for watchpoints that are registered and dropped while this exists.
pub(crate) struct HotplugCallbacks(c_int);

impl HotplugCallbacks {
    /// Registers the callbacks. Errors: -ENOSPC, -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirement. It registers code of this module; the module's exit drops this.
        let state = unsafe { bindings::ferro_dprobes_watch_begin() };
        to_result(state)?;
        Ok(Self(state))
    }
}

impl Drop for HotplugCallbacks {
    fn drop(&mut self) {
        // SAFETY: `new()` has registered this state, and only this drop removes it.
        unsafe { bindings::ferro_dprobes_watch_end(self.0) };
    }
}

/// Handler of hits, which several CPUs may call at the same time.
pub(crate) trait WatchHandler: Send + Sync + 'static {
    /// Handles a hit after a memory access, or before an instruction.
    fn hit(&self, regs: Regs<'_>);
}

/// Registered watchpoint.
///
/// # Invariants
///
/// `watch` was returned by the registration, with `_handler` as its context. `stage` tells if the
/// watchpoint is unregistered.
pub(crate) struct Watch<H: WatchHandler> {
    watch: *mut bindings::ferro_dprobes_watch,
    stage: Stage,
    // Boxed: its address does not change when this is moved.
    _handler: KBox<H>,
}

// SAFETY: Any thread may unregister a watchpoint; handlers are `Send`.
unsafe impl<H: WatchHandler> Send for Watch<H> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<H: WatchHandler> Sync for Watch<H> {}

impl<H: WatchHandler> Watch<H> {
    /// Registers a watchpoint. Errors: -EOPNOTSUPP if the CPU cannot watch this, -ENOSPC or -EBUSY
    /// if no debug register is free, -EINVAL if the address is not a multiple of the length, and
    /// others.
    pub(crate) fn register(kind: PointKind, address: u64, len: u8, handler: H) -> Result<Self> {
        let kind = match kind {
            PointKind::WatchExecute => bindings::HW_BREAKPOINT_X,
            PointKind::WatchWrite => bindings::HW_BREAKPOINT_W,
            PointKind::WatchAccess => bindings::HW_BREAKPOINT_RW,
            PointKind::WatchIo | PointKind::Breakpoint => return Err(EOPNOTSUPP),
        };
        let len = match kind {
            // Length that the kernel requires for execution.
            bindings::HW_BREAKPOINT_X => size_of::<usize>(),
            _ => len.into(),
        };
        let handler = KBox::new(handler, GFP_KERNEL)?;
        // SAFETY: The handler is in a box, which stays until the watchpoint has been unregistered;
        // `triggered()` takes the context for that handler.
        let watch = unsafe {
            bindings::ferro_dprobes_watch(
                address as usize,
                len,
                kind,
                Some(Self::triggered),
                (&raw const *handler).cast_mut().cast(),
            )
        };
        // SAFETY: The function only compares the pointer; it does not dereference it.
        to_result(unsafe { bindings::ferro_dprobes_watch_error(watch) })?;
        // INVARIANT: The registration has succeeded.
        Ok(Self {
            watch,
            stage: Stage::new(),
            _handler: handler,
        })
    }

    /// Unregisters the watchpoint, which frees its debug register. Handlers may still be running.
    pub(crate) fn release(&self) {
        self.unregister(&Batch::new());
    }

    /// Unregisters watchpoints, and waits once until none of their handlers runs. Skips those that
    /// are unregistered already.
    pub(crate) fn unregister_all<'a>(watches: impl Iterator<Item = &'a Self> + Clone) {
        let batch = Batch::new();
        let mut any = false;
        for watch in watches.clone() {
            any |= watch.unregister(&batch);
        }
        if any {
            // SAFETY: No requirement.
            unsafe { bindings::ferro_dprobes_watch_sync() };
            // The second pass may yield watchpoints of other batches: `finish()` skips them.
            watches.for_each(|watch| watch.stage.finish(&batch));
        }
    }

    /// Unregisters the watchpoint. Returns true if it was still registered. Handlers may still be
    /// running.
    fn unregister(&self, batch: &Batch) -> bool {
        let is_first = self.stage.begin_unregister(batch);
        if is_first {
            // SAFETY: By the type invariant it is registered: `begin_unregister()` is true only
            // once.
            unsafe { bindings::ferro_dprobes_unwatch(self.watch) };
        }
        is_first
    }

    /// Handles a hit, called by the kernel.
    ///
    /// # Safety
    ///
    /// `event` belongs to a `Self`, and `regs` belong to this function until it returns.
    unsafe extern "C" fn triggered(
        event: *mut bindings::perf_event,
        _data: *mut bindings::perf_sample_data,
        regs: *mut bindings::pt_regs,
    ) {
        // SAFETY: The kernel passes an event that was registered.
        let handler: *const H = unsafe { bindings::ferro_dprobes_watch_context(event) }.cast();
        // SAFETY: Unregistering waits for this call, and the handler is freed after that.
        let handler = unsafe { &*handler };
        // SAFETY: The caller guarantees that they belong to this function.
        if let Some(regs) = unsafe { Regs::from_raw(regs) } {
            handler.hit(regs);
        }
    }
}

impl<H: WatchHandler> Drop for Watch<H> {
    fn drop(&mut self) {
        self.unregister(&Batch::new());
        if self.stage.may_be_called() {
            // SAFETY: No requirement. It waits until no handler runs, so that fields dropped after
            // this are no longer used.
            unsafe { bindings::ferro_dprobes_watch_sync() };
        }
    }
}
