// SPDX-License-Identifier: GPL-2.0

//! Probes on the kernel's tracepoints.
//!
//! Tracepoints that are not exported to modules are found by name.
//!
//! Contexts: registration in process context; a probe runs where its tracepoint is.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A task, as long as a probe looks at it.
pub struct TaskView<'a>(&'a bindings::task_struct);

impl TaskView<'_> {
    /// Number of the thread.
    #[inline]
    pub fn pid(&self) -> i32 {
        self.0.pid
    }

    /// Name of the thread, filled up with NUL.
    #[inline]
    pub fn comm(&self) -> [u8; 16] {
        // SAFETY: Another task may be changing the name; any mixture of bytes is a value.
        unsafe { core::ptr::from_ref(&self.0.comm).cast::<[u8; 16]>().read_volatile() }
    }
}

/// The parameters of `sched_switch`.
pub struct Switch<'a> {
    /// Whether `prev` was preempted.
    pub preempt: bool,
    /// The task that leaves the CPU.
    pub prev: TaskView<'a>,
    /// The task that gets it.
    pub next: TaskView<'a>,
}

/// What to do at a switch.
pub trait SchedSwitch: Send + Sync + 'static {
    /// Context: the scheduler, with interrupts off and the run queue locked. It must not wake
    /// anybody up, sleep, allocate or print.
    fn switch(&self, event: &Switch<'_>);
}

/// Keeps a probe on `sched_switch`.
///
/// # Invariants
///
/// `probe` is registered with `handler` as its data.
pub struct SchedSwitchProbe<T: SchedSwitch> {
    tracepoint: NonNull<bindings::tracepoint>,
    handler: Arc<T>,
}

// SAFETY: Tracepoints have their own lock; the handler is `Send` and `Sync`.
unsafe impl<T: SchedSwitch> Send for SchedSwitchProbe<T> {}
// SAFETY: As above.
unsafe impl<T: SchedSwitch> Sync for SchedSwitchProbe<T> {}

impl<T: SchedSwitch> SchedSwitchProbe<T> {
    /// Calls `handler` at every switch from now on.
    ///
    /// Errors: -ENOENT if the kernel has no such tracepoint, -EEXIST, -ENOMEM.
    pub fn new(handler: Arc<T>) -> Result<Self> {
        let tracepoint = find(c"sched_switch")?;
        // SAFETY: The tracepoint lives as long as the kernel; the probe has its signature; the
        // handler lives until `drop()`.
        // INVARIANT: Registered here.
        to_result(unsafe {
            bindings::tracepoint_probe_register(
                tracepoint.as_ptr(),
                probe_ptr::<T>(),
                Arc::as_ptr(&handler).cast_mut().cast(),
            )
        })?;
        Ok(Self {
            tracepoint,
            handler,
        })
    }
}

impl<T: SchedSwitch> Drop for SchedSwitchProbe<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. After the second call no CPU is in the probe any more.
        unsafe {
            bindings::tracepoint_probe_unregister(
                self.tracepoint.as_ptr(),
                probe_ptr::<T>(),
                Arc::as_ptr(&self.handler).cast_mut().cast(),
            );
            bindings::ferro_tracepoint_synchronize_unregister();
        }
    }
}

type Probe = unsafe extern "C" fn(
    *mut c_void,
    bool,
    *mut bindings::task_struct,
    *mut bindings::task_struct,
    u32,
);

fn probe_ptr<T: SchedSwitch>() -> *mut c_void {
    let probe: Probe = probe::<T>;
    probe as *mut c_void
}

unsafe extern "C" fn probe<T: SchedSwitch>(
    handler: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    _prev_state: u32,
) {
    // SAFETY: `handler` was registered with this function; the scheduler passes live tasks.
    let (handler, prev, next) = unsafe { (&*handler.cast::<T>(), &*prev, &*next) };
    handler.switch(&Switch {
        preempt,
        prev: TaskView(prev),
        next: TaskView(next),
    });
}

/// A tracepoint of the kernel proper, by name.
fn find(name: &CStr) -> Result<NonNull<bindings::tracepoint>> {
    struct Search<'a> {
        name: &'a CStr,
        found: *mut bindings::tracepoint,
    }

    unsafe extern "C" fn look(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
        // SAFETY: `find()` passes a `Search`; the kernel passes its tracepoints, which have names.
        unsafe {
            let search = &mut *search.cast::<Search<'_>>();
            if CStr::from_char_ptr((*tracepoint).name) == search.name {
                search.found = tracepoint;
            }
        }
    }

    let mut search = Search {
        name,
        found: core::ptr::null_mut(),
    };
    // SAFETY: `look` gets what it expects.
    unsafe { bindings::for_each_kernel_tracepoint(Some(look), (&raw mut search).cast()) };
    NonNull::new(search.found).ok_or(ENOENT)
}
