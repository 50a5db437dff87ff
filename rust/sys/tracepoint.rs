// SPDX-License-Identifier: GPL-2.0

//! Probes on the kernel's tracepoints.
//!
//! Tracepoints that are not exported to modules are found by name.
//!
//! Contexts: registration in process context; a probe runs where its tracepoint is. Locks: that of the list of probes,
//! then those of tracepoints.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::task::Task;

use crate::deferred::Deferred;
use crate::mutex::StaticMutex;

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

/// A probe on `sched_switch`, which ends when this is dropped. The handler may drop it, too: then it is called until a
/// work item has done it. If it is forgotten, it ends when its module goes.
pub struct SchedSwitchProbe<T: SchedSwitch> {
    _attached: Deferred<Attached<T>>,
}

impl<T: SchedSwitch> SchedSwitchProbe<T> {
    /// Calls `handler` at every switch from now on.
    ///
    /// Context: process; sleeps. Errors: -ENOENT if the kernel has no such tracepoint, -EEXIST, -ENOMEM.
    pub fn new(handler: Arc<T>) -> Result<Self> {
        Ok(Self {
            _attached: Deferred::new(Attached::new(handler))?,
        })
    }
}

/// Keeps a probe on `sched_switch`.
///
/// # Invariants
///
/// `entry` was registered with `handler` as its data, and is registered as long as [`ENTRIES`] has it.
struct Attached<T: SchedSwitch> {
    entry: Entry,
    _handler: Arc<T>,
}

impl<T: SchedSwitch> Attached<T> {
    fn new(handler: Arc<T>) -> Result<Self> {
        let entry = Entry {
            tracepoint: find(c"sched_switch")?,
            probe: probe_ptr::<T>(),
            data: Arc::as_ptr(&handler).cast_mut().cast(),
        };
        // SAFETY: The probe has the signature of this tracepoint, and the handler is there until `drop()` has removed it.
        unsafe { entry.add() }?;
        // INVARIANT: Registered above.
        Ok(Self {
            entry,
            _handler: handler,
        })
    }
}

impl<T: SchedSwitch> Drop for Attached<T> {
    fn drop(&mut self) {
        self.entry.remove();
    }
}

/// A function on a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    tracepoint: NonNull<bindings::tracepoint>,
    probe: *mut c_void,
    data: *mut c_void,
}

// SAFETY: Tracepoints have their own lock; the others are addresses here.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

extern "C" {
    /// `deferred.c`
    static mut ferro_tracepoints_lock: bindings::mutex;
}

/// What is registered, to be found when the module of a function goes.
static ENTRIES: StaticMutex<KVec<Entry>> =
    // SAFETY: A mutex of `deferred.c` that protects nothing else.
    unsafe { StaticMutex::new(&raw mut ferro_tracepoints_lock, KVec::new()) };

impl Entry {
    /// Has the tracepoint call the function.
    ///
    /// # Safety
    ///
    /// `probe` has the tracepoint's signature, and takes `data` until [`Entry::remove`] has returned.
    unsafe fn add(self) -> Result {
        let mut entries = ENTRIES.lock();
        entries.reserve(1, GFP_KERNEL)?;
        // SAFETY: The tracepoint lives as long as the kernel; the rest by the rules of this function.
        to_result(unsafe {
            bindings::tracepoint_probe_register(self.tracepoint.as_ptr(), self.probe, self.data)
        })?;
        // There is room.
        Ok(entries.push_within_capacity(self)?)
    }

    /// Undoes [`Entry::add`], unless that has been done. When this returns, no CPU is in the function any more.
    fn remove(self) {
        let mut entries = ENTRIES.lock();
        if let Some(at) = entries.iter().position(|entry| *entry == self) {
            let _ = entries.remove(at);
            self.detach();
        }
        drop(entries);
        // SAFETY: Has no requirement.
        unsafe { bindings::ferro_tracepoint_synchronize_unregister() };
    }

    /// With the lock, once.
    fn detach(self) {
        // SAFETY: It was registered with these, as it was in the list.
        unsafe {
            bindings::tracepoint_probe_unregister(self.tracepoint.as_ptr(), self.probe, self.data)
        };
    }
}

/// For `deferred.c`: ends what a module that goes has forgotten.
///
/// # Safety
///
/// `module` points to a module.
#[no_mangle]
unsafe extern "C" fn ferro_tracepoints_going(module: *mut bindings::module) {
    let mut entries = ENTRIES.lock();
    let before = entries.len();
    entries.retain(|entry| {
        // SAFETY: By the rules of this function.
        let is_going = unsafe { bindings::ferro_within_module(entry.probe.addr(), module) };
        if is_going {
            entry.detach();
        }
        !is_going
    });
    if entries.len() != before {
        pr_warn!("a module that goes has left a probe on a tracepoint\n");
        // SAFETY: Has no requirement.
        unsafe { bindings::ferro_tracepoint_synchronize_unregister() };
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
