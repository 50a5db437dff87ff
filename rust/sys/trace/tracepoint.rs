// SPDX-License-Identifier: GPL-2.0

//! Probes on the kernel's tracepoints.
//!
//! Tracepoints that are not exported to modules are found by name.
//!
//! Contexts: registration: process; probe: the context of its tracepoint. Locks: the lock of the
//! list of probes, then those of tracepoints.

use core::ptr::NonNull;

use crate::bindings;
use kernel::alloc::AllocError;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::task::Task;

use crate::hook::is_going;
use crate::sync::deferred_drop::may_sleep;
use crate::sync::deferred_drop::Deferred;
use crate::sync::mutex::StaticMutex;

/// Length of a thread's name.
pub const COMM_LEN: usize = 16;
static_assert!(COMM_LEN == bindings::TASK_COMM_LEN as usize);

/// A thread.
#[derive(Clone, Copy)]
pub struct TaskInfo {
    /// Number of the thread.
    pub pid: i32,
    /// Name, padded with NUL.
    pub comm: [u8; COMM_LEN],
}

impl TaskInfo {
    /// Returns the current thread. Context: any, NMI included.
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
    /// True if `prev` was preempted.
    pub preempt: bool,
    /// The outgoing task.
    pub prev: TaskInfo,
    /// The incoming task.
    pub next: TaskInfo,
}

/// Handler of task switches.
pub trait SchedSwitch: Send + Sync + 'static {
    /// Handles a switch. Context: the scheduler, with interrupts off and the run queue locked. It
    /// must not wake a task, sleep, allocate or print.
    fn switch(&self, event: &Switch);
}

/// Reason why a probe could not be registered, armed or disarmed. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The kernel has no such tracepoint (`ENOENT`).
    NotFound,
    /// The handler is armed by another registration (`EEXIST`).
    Already,
    /// The caller is a handler, or must not sleep (`EBUSY`).
    MustNotSleep,
    /// The handler's module is being unloaded (`ESHUTDOWN`).
    ModuleGoes,
    /// No memory (`ENOMEM`).
    NoMemory,
    /// The tracepoint cannot be enabled.
    Other(kernel::error::Error),
}

impl From<Error> for kernel::error::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => ENOENT,
            Error::Already => EEXIST,
            Error::MustNotSleep => EBUSY,
            Error::ModuleGoes => ESHUTDOWN,
            Error::NoMemory => ENOMEM,
            Error::Other(e) => e,
        }
    }
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// Returns an error if the caller must not sleep, as in a handler.
fn must_sleep() -> Result<(), Error> {
    match may_sleep() {
        true => Ok(()),
        false => Err(Error::MustNotSleep),
    }
}

// RUST-KERNEL: `kernel::tracepoint` fires tracepoints, and attaches nothing to them; ours until it
// does.
/// A probe on `sched_switch`. The drop unregisters it. The handler may drop it, too: then calls
/// continue until a work item has unregistered it. A forgotten probe is unregistered when its
/// module is unloaded.
pub struct SchedSwitchProbe<T: SchedSwitch> {
    attached: Deferred<Attached<T>>,
}

impl<T: SchedSwitch> SchedSwitchProbe<T> {
    /// Registers a probe, and arms it: every later switch calls `handler`.
    ///
    /// Context: process; sleeps. Errors: [`Error::NotFound`], and those of
    /// [`SchedSwitchProbe::arm`].
    pub fn register(handler: Arc<T>) -> Result<Self, Error> {
        must_sleep()?;
        let attached = Attached::new(handler);
        let new = Self {
            attached: Deferred::new(attached)?,
        };
        new.arm()?;
        Ok(new)
    }

    /// Arms a disarmed probe.
    ///
    /// Context: process; sleeps. Errors: [`Error::Already`], [`Error::MustNotSleep`],
    /// [`Error::ModuleGoes`], [`Error::NoMemory`], [`Error::Other`].
    pub fn arm(&self) -> Result<(), Error> {
        must_sleep()?;
        // SAFETY: The probe has the signature of this tracepoint, and the handler exists until
        // `attached` is dropped, which removes it.
        unsafe { self.attached.add() }
    }

    /// Disarms the probe. No CPU is in the handler when this returns.
    ///
    /// Context: process; sleeps. Errors: [`Error::MustNotSleep`].
    pub fn disarm(&self) -> Result<(), Error> {
        must_sleep()?;
        self.attached.remove();
        Ok(())
    }

    /// Returns true if the probe is armed. Context: any.
    pub fn is_armed(&self) -> bool {
        self.attached.is_armed.load(Relaxed)
    }
}

/// A probe on `sched_switch`, with its handler.
struct Attached<T: SchedSwitch> {
    /// Has `handler` as its data; the tracepoint calls it as long as [`ENTRIES`] has it.
    entry: Entry,
    /// True if [`ENTRIES`] has it. Changed with that lock held.
    is_armed: Atomic<bool>,
    _handler: Arc<T>,
}

impl<T: SchedSwitch> Attached<T> {
    fn new(handler: Arc<T>) -> Result<Self, Error> {
        let entry = Entry {
            tracepoint: find(c"sched_switch")?,
            probe: probe_ptr::<T>(),
            data: Arc::as_ptr(&handler).cast_mut().cast(),
        };
        Ok(Self {
            entry,
            is_armed: Atomic::new(false),
            _handler: handler,
        })
    }

    /// Attaches an unattached function to the tracepoint.
    ///
    /// # Safety
    ///
    /// The function has the tracepoint's signature.
    unsafe fn add(&self) -> Result<(), Error> {
        let mut entries = ENTRIES.lock();
        if self.is_armed.load(Relaxed) {
            return Ok(());
        }
        // SAFETY: By the rules of this function; the handler exists until `drop()` has removed it.
        unsafe { self.entry.add(&mut entries) }?;
        self.is_armed.store(true, Relaxed);
        Ok(())
    }

    /// Undoes [`Attached::add`]; does nothing if the function is not attached. No CPU is in the
    /// function when this returns.
    fn remove(&self) {
        let mut entries = ENTRIES.lock();
        if self.is_armed.load(Relaxed) {
            self.is_armed.store(false, Relaxed);
            self.entry.remove(&mut entries);
        }
        drop(entries);
        // SAFETY: Has no requirement.
        unsafe { bindings::ferro_tracepoint_synchronize_unregister() };
    }
}

impl<T: SchedSwitch> Drop for Attached<T> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A function on a tracepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    tracepoint: NonNull<bindings::tracepoint>,
    probe: *mut c_void,
    data: *mut c_void,
}

// SAFETY: Tracepoints have their own lock; the other fields are addresses.
unsafe impl Send for Entry {}
// SAFETY: An entry does not change; several tasks may compare its addresses.
unsafe impl Sync for Entry {}

extern "C" {
    /// `deferred_drop.c`
    static mut ferro_tracepoints_lock: bindings::mutex;
}

/// Armed entries, searched when the module of a function is unloaded.
static ENTRIES: StaticMutex<KVec<Entry>> =
    // SAFETY: A mutex of `deferred_drop.c` that protects nothing else.
    unsafe { StaticMutex::new(&raw mut ferro_tracepoints_lock, KVec::new()) };

impl Entry {
    /// Attaches the function to the tracepoint.
    ///
    /// # Safety
    ///
    /// `probe` has the tracepoint's signature, and accepts `data` until [`Entry::remove`] and a
    /// grace period are over.
    unsafe fn add(self, entries: &mut KVec<Entry>) -> Result<(), Error> {
        if is_going(self.probe.addr()) {
            return Err(Error::ModuleGoes);
        }
        // The tracepoint cannot distinguish two with the same function and data.
        if entries.contains(&self) {
            return Err(Error::Already);
        }
        entries.reserve(1, GFP_KERNEL)?;
        // SAFETY: The tracepoint lives as long as the kernel; the rest by the rules of this
        // function.
        let added = to_result(unsafe {
            bindings::tracepoint_probe_register(self.tracepoint.as_ptr(), self.probe, self.data)
        });
        added.map_err(|e| match e {
            e if e == ENOMEM => Error::NoMemory,
            e => Error::Other(e),
        })?;
        // The room has been reserved.
        let _ = entries.push_within_capacity(self);
        Ok(())
    }

    /// Undoes [`Entry::add`], unless the unload of its module has done so.
    fn remove(self, entries: &mut KVec<Entry>) {
        if let Some(at) = entries.iter().position(|entry| *entry == self) {
            let _ = entries.remove(at);
            self.detach();
        }
    }

    /// Detaches the function; called once, with the lock held.
    fn detach(self) {
        // SAFETY: The list had the entry, so it was registered with these arguments.
        unsafe {
            bindings::tracepoint_probe_unregister(self.tracepoint.as_ptr(), self.probe, self.data)
        };
    }
}

/// Entry point of `deferred_drop.c`: detaches probes that a module in state GOING has forgotten.
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
        pr_warn!("an unloaded module has left a probe on a tracepoint\n");
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
/// Called by the tracepoint with which it was registered; `handler` is a live `T`.
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

/// Finds a tracepoint of the kernel image by name.
fn find(name: &CStr) -> Result<NonNull<bindings::tracepoint>, Error> {
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
    // SAFETY: `look` gets a `Search` and tracepoints.
    unsafe { bindings::for_each_kernel_tracepoint(Some(look), (&raw mut search).cast()) };
    NonNull::new(search.found).ok_or(Error::NotFound)
}
