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
use kernel::task::Task;

/// Length of a thread's name.
pub const COMM_LEN: usize = 16;
static_assert!(COMM_LEN == bindings::TASK_COMM_LEN as usize);

/// A thread.
#[derive(Clone, Copy)]
pub struct TaskInfo {
    /// Its number.
    pub pid: i32,
    /// Its name, filled up with NUL.
    pub comm: [u8; COMM_LEN],
}

impl TaskInfo {
    /// The thread that runs. Context: any, NMI included.
    #[inline]
    pub fn current() -> Self {
        // SAFETY: The current task is live.
        unsafe { Self::of(Task::current_raw()) }
    }

    /// # Safety
    ///
    /// `task` points to a live task.
    #[inline]
    unsafe fn of(task: *const bindings::task_struct) -> Self {
        let mut comm = [0; COMM_LEN];
        // SAFETY: By the rules of this function. The name may be changing; any bytes will do.
        let pid = unsafe { bindings::ferro_task_info(task, comm.as_mut_ptr().cast()) };
        Self { pid, comm }
    }
}

/// The parameters of `sched_switch`.
pub struct Switch {
    /// Whether `prev` was preempted.
    pub preempt: bool,
    /// The task that leaves the CPU.
    pub prev: TaskInfo,
    /// The task that gets it.
    pub next: TaskInfo,
}

/// What to do at a switch.
pub trait SchedSwitch: Send + Sync + 'static {
    /// Context: the scheduler, with interrupts off and the run queue locked. It must not wake
    /// anybody up, sleep, allocate or print.
    fn switch(&self, event: &Switch);
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

/// # Safety
///
/// Called by the tracepoint it was registered with, `handler` being a live `T`.
unsafe extern "C" fn probe<T: SchedSwitch>(
    handler: *mut c_void,
    preempt: bool,
    prev: *mut bindings::task_struct,
    next: *mut bindings::task_struct,
    _prev_state: u32,
) {
    // SAFETY: `handler` was registered with this function; the scheduler passes live tasks.
    let (handler, prev, next) = unsafe {
        (
            &*handler.cast::<T>(),
            TaskInfo::of(prev),
            TaskInfo::of(next),
        )
    };
    handler.switch(&Switch {
        preempt,
        prev,
        next,
    });
}

/// A tracepoint of the kernel proper, by name.
fn find(name: &CStr) -> Result<NonNull<bindings::tracepoint>> {
    struct Search<'a> {
        name: &'a CStr,
        found: *mut bindings::tracepoint,
    }

    /// # Safety
    ///
    /// `search` points to a live `Search`, `tracepoint` to a tracepoint.
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
