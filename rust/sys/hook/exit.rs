// SPDX-License-Identifier: GPL-2.0

//! Exits, as a hook's site calls them.
//!
//! Contexts: the context of the hook, NMI included.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering;

use crate::bindings;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::HookRef;
use crate::cpu::percpu::inc_this_cpu;
use crate::cpu::percpu::PerCpuCounter;
use crate::cpu::IrqsSection;

/// The function of an exit: `gkh_fn_t`.
pub type ExitFn = unsafe extern "C" fn(
    *const bindings::gkh_exit,
    c_ulong,
    c_ulong,
    c_ulong,
    c_ulong,
    c_ulong,
) -> c_long;

/// Condition under which an exit is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    None,
    /// With interrupts off.
    IrqsOff,
    /// With interrupts off, while all other CPUs are stopped.
    CpusStopped,
}

/// Counters of an exit, which it keeps when it is armed again.
pub struct Counters {
    /// Calls by the site. The site counts, so this exists as long as the exit.
    direct: PerCpuCounter,
    /// Calls by chains.
    chained: PerCpuCounter,
    /// Calls of both kinds that were counted and not made.
    skipped: PerCpuCounter,
    /// Finished calls, if the exit counts them.
    left: PerCpuCounter,
    stops: PerCpuCounter,
    counts_left: bool,
    /// True if the registry has armed the exit.
    armed: AtomicBool,
    /// Number of [`Exit`]s that the registry has put into use one after another, and number of
    /// those that have disarmed themselves. The present one is one of those if these are equal.
    used: AtomicUsize,
    self_disarmed: AtomicUsize,
}

/// State without calls in progress, with the number of calls begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtRest(usize);

impl Counters {
    /// Makes counters for an exit of these parts. Errors: -ENOMEM.
    pub fn new(parts: &Parts) -> Result<Self> {
        Ok(Self {
            direct: PerCpuCounter::new()?,
            chained: PerCpuCounter::new()?,
            skipped: PerCpuCounter::new()?,
            left: PerCpuCounter::new()?,
            stops: PerCpuCounter::new()?,
            counts_left: parts.counts_left,
            armed: AtomicBool::new(false),
            used: AtomicUsize::new(1),
            self_disarmed: AtomicUsize::new(0),
        })
    }

    /// Returns true if the exit is armed, and has not disarmed itself. Context: any.
    pub fn is_armed(&self) -> bool {
        let is_self_disarmed =
            self.self_disarmed.load(Ordering::Acquire) == self.used.load(Ordering::Acquire);
        self.armed.load(Ordering::Acquire) && !is_self_disarmed
    }

    /// Records that the registry has armed or disarmed the exit.
    pub fn set_armed(&self, armed: bool) {
        self.armed.store(armed, Ordering::Release);
    }

    /// Records that the registry has replaced an [`Exit`] that has disarmed itself.
    pub fn note_replaced(&self) {
        self.used.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of calls by the site, as the only armed exit.
    pub fn direct_hits(&self) -> usize {
        self.direct.sum()
    }

    /// Returns the number of all calls.
    pub fn hits(&self) -> usize {
        let skipped = self.skipped.sum();
        self.begun().wrapping_sub(skipped)
    }

    fn begun(&self) -> usize {
        self.direct.sum().wrapping_add(self.chained.sum())
    }

    /// Returns the number of dispatches that it has ended before other exits.
    pub fn stops(&self) -> usize {
        self.stops.sum()
    }

    /// Returns the state if no call is in progress. For an exit that sleeps where it must not, only
    /// the count shows this. An exit that does not count the ends of its calls is always at rest.
    ///
    /// Calls that have begun and are not visible yet are ignored. If the result is the same before
    /// and after a wait for all CPUs, no call was in progress during the wait.
    pub fn at_rest(&self) -> Option<AtRest> {
        if !self.counts_left {
            return Some(AtRest(0));
        }
        // In this order, and no counter ever decreases: if the sums are equal, they were equal
        // between the two reads.
        let over = self.left.sum().wrapping_add(self.skipped.sum());
        let begun = self.begun();
        (begun == over).then_some(AtRest(begun))
    }

    /// Returns true if a call is in progress, see [`Counters::at_rest`].
    pub fn is_called(&self) -> bool {
        self.at_rest().is_none()
    }
}

/// An armed exit.
///
/// # Invariants
///
/// - `raw` is the first field, and its `fn` is one of: `real`, `irqs_off`, `cpus_stopped`, `skip`.
///   Its `hits` belongs to `direct` of `counters`; `chained` and `left` belong to `counters`.
/// - `real` may be called as long as a publisher or a chain has this.
#[repr(C)]
pub struct Exit {
    raw: UnsafeCell<bindings::gkh_exit>,
    real: ExitFn,
    chained: *mut usize,
    left: *mut usize,
    called_anyway: bool,
    counters: Arc<Counters>,
}

// SAFETY: The counters may be sent, with the pointers to them. `data` and `record` are only passed
// to the function, which by the rules of `Parts::new()` may be called with them wherever the hook
// fires.
unsafe impl Send for Exit {}
// SAFETY: Only `fn` of `raw` changes, in single exchanges of a word, and several CPUs may use the
// counters at once. The function may be called on several CPUs at once: by the rules of
// `Parts::new()`, wherever the hook fires.
unsafe impl Sync for Exit {}

/// Parts of an exit.
#[derive(Clone, Copy)]
pub struct Parts {
    function: ExitFn,
    condition: Condition,
    pinned: bool,
    called_anyway: bool,
    counts_left: bool,
    data: *mut c_void,
    record: *mut bindings::gkh_record,
}

// SAFETY: Nothing here follows the pointers; the function does, which by the rules of
// `Parts::new()` may be called anywhere.
unsafe impl Send for Parts {}
// SAFETY: A shared one can only be read, and nothing here follows the pointers.
unsafe impl Sync for Parts {}

impl Parts {
    /// Makes parts. `data` and `record` are passed to the function in its `struct gkh_exit`.
    ///
    /// # Safety
    ///
    /// The function may be called with an [`Exit`] of these parts and with the parameters of the
    /// hook on which it is published, in the hook's context and under the condition, until a
    /// [`RetireList`](super::RetireList) has waited for that. `record` is NULL or exists as long.
    pub unsafe fn new(
        function: ExitFn,
        condition: Condition,
        data: *mut c_void,
        record: *mut bindings::gkh_record,
    ) -> Self {
        Self {
            function,
            condition,
            pinned: false,
            called_anyway: false,
            counts_left: false,
            data,
            record,
        }
    }

    /// Makes the exit count its calls: the function calls [`leave`] at its end, so that its data is
    /// kept even if it sleeps.
    pub(super) fn count_left(&mut self) {
        self.counts_left = true;
    }

    /// Pins the exit: debugfs cannot change it. If `called_anyway`, it is called even if an exit
    /// before it has ended the dispatch.
    pub fn pin(&mut self, called_anyway: bool) {
        self.pinned = true;
        self.called_anyway = called_anyway;
    }

    /// Returns true if the exit is pinned.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Returns the address of the function.
    pub fn address(&self) -> usize {
        (self.function as *const ()).addr()
    }

    /// Returns the record's address, or 0.
    pub fn record_address(&self) -> usize {
        self.record.addr()
    }

    /// Returns the condition.
    pub fn condition(&self) -> Condition {
        self.condition
    }
}

impl Exit {
    /// Makes an exit that can be published on this hook, with counters for these parts.
    pub fn new(parts: &Parts, hook: HookRef, counters: Arc<Counters>) -> Self {
        let function = match parts.condition {
            Condition::None => parts.function,
            Condition::IrqsOff => irqs_off,
            Condition::CpusStopped => cpus_stopped,
        };
        // INVARIANT: By the rules of `Parts`.
        Self {
            raw: UnsafeCell::new(bindings::gkh_exit {
                fn_: Some(function),
                hits: counters.direct.as_ptr(),
                data: parts.data,
                record: parts.record,
                count: hook.count(),
            }),
            real: parts.function,
            chained: counters.chained.as_ptr(),
            left: counters.left.as_ptr(),
            called_anyway: parts.called_anyway,
            counters,
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn counts_left(&self) -> bool {
        self.counters.counts_left
    }

    /// Returns the C pointer, with the provenance of all of `self`: callbacks cast it back.
    pub(super) fn as_ptr(&self) -> *const bindings::gkh_exit {
        core::ptr::from_ref(self).cast()
    }

    pub(super) fn is_called_anyway(&self) -> bool {
        self.called_anyway
    }

    /// Counts a dispatch that it has ended before other exits.
    pub(super) fn count_stop(&self) {
        self.counters.stops.inc();
    }

    fn function(&self) -> &AtomicPtr<c_void> {
        // SAFETY: By the type invariant the word is a function's address, and all writers use this;
        // the alignment is that of a pointer.
        unsafe { AtomicPtr::from_ptr((&raw mut (*self.raw.get()).fn_).cast()) }
    }

    /// Calls the exit as a part of a chain.
    ///
    /// # Safety
    ///
    /// The parameters belong to its hook, which has at most `N` unless `N` is the maximum.
    #[inline(always)]
    pub(super) unsafe fn call<const N: usize>(&self, p: [c_ulong; super::PARAMS_MAX]) -> c_long {
        // SAFETY: By the type invariant this is the per-CPU word of `counters`, which exist as long
        // as `self`.
        unsafe { inc_this_cpu(self.chained) };
        // SAFETY: `self` is live during this call, and by the type invariant its function may be
        // called with it. The caller guarantees that the parameters belong to its hook, and that
        // `N` is enough for them.
        unsafe { super::site::invoke::<N>(self.as_ptr(), p) }
    }

    /// Returns true if the exit has disarmed itself.
    pub fn is_self_disarmed(&self) -> bool {
        self.function().load(Ordering::Acquire) == skip as *mut c_void
    }

    /// Prevents further calls by all sites and chains that still have it. Returns false if the exit
    /// was disarmed in this way before.
    pub fn self_disarm(&self) -> bool {
        let old = self.function().swap(skip as *mut c_void, Ordering::AcqRel);
        let self_disarmed = old != skip as *mut c_void;
        if self_disarmed {
            self.counters.self_disarmed.fetch_add(1, Ordering::AcqRel);
        }
        self_disarmed
    }
}

/// Counts the end of a call.
///
/// # Safety
///
/// `exit` is the argument with which the exit was called. Nothing that may be freed with the exit
/// is used afterwards.
#[inline(always)]
pub(super) unsafe fn leave(exit: *const bindings::gkh_exit) {
    // SAFETY: The caller guarantees that `exit` is the argument of a call: the `raw` of an `Exit`,
    // its first field. The owner waits for this count before it drops the exit.
    unsafe { inc_this_cpu((*exit.cast::<Exit>()).left) };
}

/// Disarms the exit being called. Returns true for the one call that did it.
///
/// # Safety
///
/// `exit` is the argument with which the exit was called.
#[link_section = ".kprobes.text"]
pub unsafe fn disarm_self(exit: *const bindings::gkh_exit) -> bool {
    // SAFETY: The caller guarantees that `exit` is the argument of a call: the `raw` of an `Exit`,
    // its first field, which exists during this call.
    let self_disarmed = unsafe { &*exit.cast::<Exit>() }.self_disarm();
    if self_disarmed {
        super::remove_self_disarmed_later();
    }
    self_disarmed
}

/// Replaces the function of an exit that has disarmed itself, until its hook is updated.
///
/// # Safety
///
/// Called by a site or a chain, with an `Exit`.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn skip(
    exit: *const bindings::gkh_exit,
    _: c_ulong,
    _: c_ulong,
    _: c_ulong,
    _: c_ulong,
    _: c_ulong,
) -> c_long {
    // The hook or the chain has counted a call that was not made.
    // SAFETY: A site or a chain passes the `raw` of an `Exit`, its first field, which exists during
    // this call.
    unsafe { &*exit.cast::<Exit>() }.counters.skipped.inc();
    0
}

/// # Safety
///
/// Called by a site or a chain, with an `Exit` and the parameters of its hook.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn irqs_off(
    exit: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    let _irqs = IrqsSection::new();
    // SAFETY: A site or a chain passes the `raw` of an `Exit`, its first field, which exists during
    // this call.
    let this = unsafe { &*exit.cast::<Exit>() };
    // SAFETY: By the invariant of `Exit` its `real` may be called as long as a site or a chain has
    // it, as the caller of this function does, with the parameters of the hook, which are passed.
    unsafe { (this.real)(exit, p0, p1, p2, p3, p4) }
}

/// # Safety
///
/// As for [`irqs_off`], in a context that may sleep.
unsafe extern "C" fn cpus_stopped(
    exit: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    struct Call {
        exit: *const bindings::gkh_exit,
        p: [c_ulong; super::PARAMS_MAX],
        answer: c_long,
    }

    /// # Safety
    ///
    /// `call` is a `Call`.
    unsafe extern "C" fn run(call: *mut c_void) -> kernel::ffi::c_int {
        // SAFETY: `call` belongs to `cpus_stopped()`, which waits in `ferro_stop_machine()` and
        // does not use it during that. The stopper calls this once, on one CPU.
        let call = unsafe { &mut *call.cast::<Call>() };
        let [p0, p1, p2, p3, p4] = call.p;
        // SAFETY: `cpus_stopped()` was called with the `raw` of an `Exit`, and has not returned:
        // the exit exists as long.
        let this = unsafe { &*call.exit.cast::<Exit>() };
        // It may have disarmed itself in a call on another CPU, while this one waited for its turn.
        if this.is_self_disarmed() {
            this.counters.skipped.inc();
            return 0;
        }
        // SAFETY: By the invariant of `Exit` its `real` may be called as long as a site or a chain
        // has it, as the caller of `cpus_stopped()` does, with the parameters of the hook, which
        // that caller passed.
        call.answer = unsafe { (this.real)(call.exit, p0, p1, p2, p3, p4) };
        0
    }

    let mut call = Call {
        exit,
        p: [p0, p1, p2, p3, p4],
        answer: 0,
    };
    // SAFETY: `run` gets a pointer to a `Call`, and has returned when this does. It returns 0, and
    // nothing else can fail.
    unsafe { bindings::ferro_stop_machine(Some(run), (&raw mut call).cast()) };
    call.answer
}
