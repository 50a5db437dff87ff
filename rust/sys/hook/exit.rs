// SPDX-License-Identifier: GPL-2.0

//! An exit, as a hook's site calls it.
//!
//! Contexts: wherever the hook is, NMI included.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering;

use kernel::bindings;
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

/// How an exit wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As it comes.
    None,
    /// With interrupts off.
    IrqsOff,
    /// With interrupts off, while all other CPUs are stopped.
    CpusStopped,
}

/// What an exit has counted; it stays the same when the exit is armed again.
pub struct Counters {
    /// Calls by the site itself. The site counts, so this has to stay as long as the exit.
    direct: PerCpuCounter,
    /// Calls by chains.
    chained: PerCpuCounter,
    /// Of both kinds, those that were counted and not made.
    skipped: PerCpuCounter,
    /// Calls that are over, if the exit counts them.
    left: PerCpuCounter,
    stops: PerCpuCounter,
    counts_left: bool,
    /// Whether the registry has armed it.
    armed: AtomicBool,
    /// How many [`Exit`]s of it the registry has put into use one after another, and how many of them are spent: the one
    /// that is in use is spent if these are the same.
    used: AtomicUsize,
    spent: AtomicUsize,
}

/// No call of an exit was going on, when so many had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtRest(usize);

impl Counters {
    /// For an exit of these parts. Errors: -ENOMEM.
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
            spent: AtomicUsize::new(0),
        })
    }

    /// Whether the exit is armed, and has not disarmed itself. Context: any.
    pub fn is_armed(&self) -> bool {
        let is_spent = self.spent.load(Ordering::Acquire) == self.used.load(Ordering::Acquire);
        self.armed.load(Ordering::Acquire) && !is_spent
    }

    /// The registry has armed it, or disarmed it.
    pub fn set_armed(&self, armed: bool) {
        self.armed.store(armed, Ordering::Release);
    }

    /// The registry has replaced an [`Exit`] that was spent.
    pub fn note_renewed(&self) {
        self.used.fetch_add(1, Ordering::AcqRel);
    }

    /// Calls by the site itself, when it was the only armed exit.
    pub fn direct_hits(&self) -> usize {
        self.direct.sum()
    }

    /// All calls.
    pub fn hits(&self) -> usize {
        let skipped = self.skipped.sum();
        self.begun().wrapping_sub(skipped)
    }

    fn begun(&self) -> usize {
        self.direct.sum().wrapping_add(self.chained.sum())
    }

    /// How often it ended a dispatch with other exits after it.
    pub fn stops(&self) -> usize {
        self.stops.sum()
    }

    /// Whether no call is going on. Where one is not meant to sleep and does, the count alone says so; an exit that does
    /// not count the ends of its calls is always at rest.
    ///
    /// Calls that have begun and cannot be seen yet are not taken into account. If this is the same before and after a wait
    /// for all CPUs, no call was going on during the wait.
    pub fn at_rest(&self) -> Option<AtRest> {
        if !self.counts_left {
            return Some(AtRest(0));
        }
        // In this order, and none of them ever goes down: if the sums are the same, they were so between the two.
        let over = self.left.sum().wrapping_add(self.skipped.sum());
        let begun = self.begun();
        (begun == over).then_some(AtRest(begun))
    }

    /// Whether a call is going on, see [`Counters::at_rest`].
    pub fn is_called(&self) -> bool {
        self.at_rest().is_none()
    }
}

/// An armed exit.
///
/// # Invariants
///
/// - `raw` comes first, and its `fn` is one of: `real`, `irqs_off`, `cpus_stopped`, `skip`. Its `hits` is that of
///   `direct` of `counters`; `chained` and `left` are those of `counters`.
/// - `real` may be called as long as a publisher or a chain has this.
#[repr(C)]
pub struct Exit {
    raw: UnsafeCell<bindings::gkh_exit>,
    real: ExitFn,
    chained: *mut usize,
    left: *mut usize,
    pinned: bool,
    counters: Arc<Counters>,
}

// SAFETY: The counters may be sent, and the pointers to them go with them. `data` and `record` are only given to the function,
// which by the rules of `Parts::new()` may be called with them wherever the hook fires.
unsafe impl Send for Exit {}
// SAFETY: Only `fn` of `raw` changes, in single exchanges of a word, and the counters are made for several CPUs at once. The
// function may be called on several CPUs at once: by the rules of `Parts::new()`, wherever the hook fires.
unsafe impl Sync for Exit {}

/// What an exit is made of.
#[derive(Clone, Copy)]
pub struct Parts {
    function: ExitFn,
    condition: Condition,
    pinned: bool,
    counts_left: bool,
    data: *mut c_void,
    record: *mut bindings::gkh_record,
}

// SAFETY: Nothing here follows the pointers; the function does, which by the rules of `Parts::new()` may be called anywhere.
unsafe impl Send for Parts {}
// SAFETY: A shared one can only be read, and nothing here follows the pointers.
unsafe impl Sync for Parts {}

impl Parts {
    /// `data` and `record` are what the function finds in its `struct gkh_exit`.
    ///
    /// # Safety
    ///
    /// The function may be called with an [`Exit`] of these parts and with the parameters of the hook that it is
    /// published on, in its context and under the condition, until a [`RetireList`](super::Graveyard) has
    /// waited for that; and `record` is NULL or stays as long.
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
            counts_left: false,
            data,
            record,
        }
    }

    /// The function calls [`leave`] at its end, so that nothing it needs goes before, even if it sleeps.
    pub(super) fn count_left(&mut self) {
        self.counts_left = true;
    }

    /// Has it called although an exit before it has ended the dispatch.
    pub fn pin(&mut self) {
        self.pinned = true;
    }

    /// Whether it is called in any case.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Where the function is.
    pub fn address(&self) -> usize {
        (self.function as *const ()).addr()
    }

    /// The record's address, or 0.
    pub fn record_address(&self) -> usize {
        self.record.addr()
    }

    /// How it is called.
    pub fn condition(&self) -> Condition {
        self.condition
    }
}

impl Exit {
    /// An exit that can be published on this hook, with counters for these parts.
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
            pinned: parts.pinned,
            counters,
        }
    }

    /// What it counts in.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn counts_left(&self) -> bool {
        self.counters.counts_left
    }

    /// With the right to all of `self`: it comes back as a pointer to that.
    pub(super) fn as_ptr(&self) -> *const bindings::gkh_exit {
        core::ptr::from_ref(self).cast()
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// It has ended a dispatch that would have gone on.
    pub(super) fn count_stop(&self) {
        self.counters.stops.inc();
    }

    fn function(&self) -> &AtomicPtr<c_void> {
        // SAFETY: By the type invariant the word is a function's address, and everyone who writes it uses
        // this; the alignment is that of a pointer.
        unsafe { AtomicPtr::from_ptr((&raw mut (*self.raw.get()).fn_).cast()) }
    }

    /// Calls it as a part of a chain.
    ///
    /// # Safety
    ///
    /// The parameters are those of its hook, which has no more than `N` if that is not the most that can be.
    #[inline(always)]
    pub(super) unsafe fn call<const N: usize>(&self, p: [c_ulong; super::PARAMS_MAX]) -> c_long {
        // SAFETY: By the type invariant this is the per-CPU word of `counters`, which are there as long as `self`.
        unsafe { inc_this_cpu(self.chained) };
        // SAFETY: `self` is live during this call, and by the type invariant its function may be called with it; the caller
        // guarantees that the parameters are those of its hook, and that `N` is enough for them.
        unsafe { super::site::invoke::<N>(self.as_ptr(), p) }
    }

    /// Whether it has disarmed itself.
    pub fn is_spent(&self) -> bool {
        self.function().load(Ordering::Acquire) == skip as *mut c_void
    }

    /// It is not called any more, by whatever still has it. False if that was so before.
    pub fn spend(&self) -> bool {
        let old = self.function().swap(skip as *mut c_void, Ordering::AcqRel);
        let spent = old != skip as *mut c_void;
        if spent {
            self.counters.spent.fetch_add(1, Ordering::AcqRel);
        }
        spent
    }
}

/// A call of an exit that counts them is over.
///
/// # Safety
///
/// `exit` is what the exit was called with. Nothing that may go with the exit is used after this.
#[inline(always)]
pub(super) unsafe fn leave(exit: *const bindings::gkh_exit) {
    // SAFETY: The caller guarantees that it is what an exit was called with: the `raw` of an `Exit`, which comes first. Its
    // owner waits for this count before it drops it.
    unsafe { inc_this_cpu((*exit.cast::<Exit>()).left) };
}

/// Disarms the exit that is being called. True for the one call that did it.
///
/// # Safety
///
/// `exit` is what the exit was called with.
#[link_section = ".kprobes.text"]
pub unsafe fn disarm_self(exit: *const bindings::gkh_exit) -> bool {
    // SAFETY: The caller guarantees that it is what an exit was called with: the `raw` of an `Exit`, which comes first, and which
    // stays as long as this call of it.
    let spent = unsafe { &*exit.cast::<Exit>() }.spend();
    if spent {
        super::tidy_later();
    }
    spent
}

/// What is called of an exit that has disarmed itself, until its hook knows.
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
    // It has been counted, by the hook or by a chain, but was not called.
    // SAFETY: A site or a chain passes the `raw` of an `Exit`, which comes first, and which stays as long as this call.
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
    // SAFETY: A site or a chain passes the `raw` of an `Exit`, which comes first, and which stays as long as this call.
    let this = unsafe { &*exit.cast::<Exit>() };
    // SAFETY: By the invariant of `Exit` its `real` may be called as long as a site or a chain has it, as whoever called this
    // does, with the parameters of the hook, which these are.
    unsafe { (this.real)(exit, p0, p1, p2, p3, p4) }
}

/// # Safety
///
/// As for [`irqs_off`], where one may sleep.
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
        // SAFETY: `call` is the one of `cpus_stopped()`, which waits in `ferro_stop_machine()` and does not use it as long. The
        // stopper calls this once, on one CPU.
        let call = unsafe { &mut *call.cast::<Call>() };
        let [p0, p1, p2, p3, p4] = call.p;
        // SAFETY: `cpus_stopped()` was called with the `raw` of an `Exit`, and has not returned: that stays as long.
        let this = unsafe { &*call.exit.cast::<Exit>() };
        // It may have disarmed itself in a call for another CPU, while this one waited for its turn.
        if this.is_spent() {
            this.counters.skipped.inc();
            return 0;
        }
        // SAFETY: By the invariant of `Exit` its `real` may be called as long as a site or a chain has it, as the caller of
        // `cpus_stopped()` does, with the parameters of the hook, which that passed.
        call.answer = unsafe { (this.real)(call.exit, p0, p1, p2, p3, p4) };
        0
    }

    let mut call = Call {
        exit,
        p: [p0, p1, p2, p3, p4],
        answer: 0,
    };
    // SAFETY: `run` gets what it expects, and has returned when this does. It returns 0, and nothing else
    // can fail.
    unsafe { bindings::ferro_stop_machine(Some(run), (&raw mut call).cast()) };
    call.answer
}
