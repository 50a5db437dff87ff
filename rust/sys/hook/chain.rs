// SPDX-License-Identifier: GPL-2.0

//! Chains of exits, called in order, and the switch that changes several hooks in one step.
//!
//! Contexts: dispatch: the context of the hook, NMI included; creation and switching: process.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;

use crate::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::dispatch_tracker::Readers;
use super::exit::Exit;
use super::HookRef;
use super::PARAMS_MAX;
use crate::cpu::percpu::dec_this_cpu;
use crate::cpu::percpu::inc_this_cpu;
use crate::cpu::percpu::PerCpuCounter;

/// A word that decides which exits several chains call.
pub struct Switch(AtomicBool);

impl Switch {
    /// Makes a switch that is not thrown.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Makes all chains with this switch call their later exits.
    ///
    /// The other CPUs are stopped during the store, so that it happens in no section of theirs with
    /// interrupts or preemption off. NMIs cannot be stopped; for them it is a single store.
    ///
    /// Context: process; sleeps.
    pub fn throw(&self) {
        /// # Safety
        ///
        /// `switch` points to an `AtomicBool`.
        unsafe extern "C" fn run(switch: *mut c_void) -> c_int {
            // SAFETY: By the rules of this function.
            unsafe { &*switch.cast::<AtomicBool>() }.store(true, Ordering::Release);
            0
        }
        let switch = (&raw const self.0).cast_mut().cast();
        // SAFETY: `run` gets a pointer to an `AtomicBool`, and has returned when this does.
        unsafe { bindings::ferro_stop_machine(Some(run), switch) };
    }

    fn is_thrown(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}

/// Exits of a hook, in order.
///
/// # Invariants
///
/// `raw` is the first field. Its `fn` is `dispatch` for the hook's parameters, `dispatch_counted`,
/// or `dispatch_asleep` if `readers` has a lock. Its `hits` belongs to `_hits`.
#[repr(C)]
pub struct Chain {
    raw: UnsafeCell<bindings::gkh_exit>,
    now: KVec<Arc<Exit>>,
    /// Exits that are called once the switch has been thrown.
    later: Option<(Arc<Switch>, KVec<Arc<Exit>>)>,
    /// Readers that waiters of the chain wait for.
    readers: Readers,
    /// True if the hook's exits can make the function return: the last parameter is the address for
    /// the value.
    has_return: bool,
    /// Number of dispatches in progress, if one of the exits could sleep where it must not.
    inside: Option<PerCpuCounter>,
    /// Counter of the site.
    _hits: Arc<PerCpuCounter>,
}

// SAFETY: Its parts may be sent, except the pointers in `raw`: those are NULL, or point to the
// counter that `_hits` keeps.
unsafe impl Send for Chain {}
// SAFETY: `raw` is not written after its creation; several CPUs may use the counters and the switch
// at once.
unsafe impl Sync for Chain {}

impl Chain {
    /// Makes a chain for this hook, of exits that were made for it. Errors: -ENOMEM.
    pub fn new(
        hook: HookRef,
        readers: Readers,
        now: KVec<Arc<Exit>>,
        later: Option<(Arc<Switch>, KVec<Arc<Exit>>)>,
        hits: Arc<PerCpuCounter>,
    ) -> Result<Self> {
        let any_counts = |exits: &[Arc<Exit>]| exits.iter().any(|e| e.counts_left());
        let inside = match any_counts(&now) || later.iter().any(|(_, exits)| any_counts(exits)) {
            true => Some(PerCpuCounter::new()?),
            false => None,
        };
        let function: super::ExitFn = match (&readers, hook.count()) {
            (Readers::Asleep(_), _) => dispatch_asleep,
            // The return value follows all other parameters.
            _ if hook.has_return() && inside.is_some() => dispatch_counted::<PARAMS_MAX>,
            _ if hook.has_return() => dispatch::<PARAMS_MAX>,
            (_, 0) if inside.is_some() => dispatch_counted::<0>,
            (_, 1) if inside.is_some() => dispatch_counted::<1>,
            (_, 2) if inside.is_some() => dispatch_counted::<2>,
            (_, 3) if inside.is_some() => dispatch_counted::<3>,
            _ if inside.is_some() => dispatch_counted::<PARAMS_MAX>,
            (_, 0) => dispatch::<0>,
            (_, 1) => dispatch::<1>,
            (_, 2) => dispatch::<2>,
            (_, 3) => dispatch::<3>,
            _ => dispatch::<PARAMS_MAX>,
        };
        // INVARIANT: By the choice of `fn` and `hits` here.
        Ok(Self {
            raw: UnsafeCell::new(bindings::gkh_exit {
                fn_: Some(function),
                hits: hits.as_ptr(),
                data: core::ptr::null_mut(),
                record: core::ptr::null_mut(),
                count: hook.count(),
            }),
            now,
            later,
            readers,
            has_return: hook.has_return(),
            inside,
            _hits: hits,
        })
    }

    /// Returns true if its dispatches are counted, because one of the exits could sleep where it
    /// must not.
    pub(super) fn is_counted(&self) -> bool {
        self.inside.is_some()
    }

    /// Returns true if a dispatch is in progress although the chain has been retired and all CPUs
    /// have been waited for.
    pub(super) fn is_called(&self) -> bool {
        self.inside.as_ref().is_some_and(|inside| inside.sum() != 0)
    }

    /// Returns the C pointer, with the provenance of all of `self`: callbacks cast it back.
    pub(super) fn as_ptr(&self) -> *const bindings::gkh_exit {
        core::ptr::from_ref(self).cast()
    }

    /// # Safety
    ///
    /// The parameters belong to the hook, which has at most `N` unless `N` is the maximum.
    #[inline(always)]
    unsafe fn dispatch<const N: usize>(&self, p: [c_ulong; PARAMS_MAX]) -> c_long {
        let exits = match &self.later {
            Some((switch, later)) if switch.is_thrown() => later,
            _ => &self.now,
        };
        let mut rest = exits.iter();
        while let Some(exit) = rest.next() {
            // SAFETY: By the rules of this function.
            let answer = unsafe { exit.call::<N>(p) };
            if answer != 0 {
                // SAFETY: By the rules of this function.
                unsafe { end(exit, rest.as_slice(), p, self.has_return) };
                return answer;
            }
        }
        0
    }
}

/// Calls the exits after the one that has ended a dispatch, if they are called anyway. Ignores
/// their answers and their return values.
///
/// # Safety
///
/// The parameters and `has_return` belong to the hook.
#[cold]
#[link_section = ".kprobes.text"]
unsafe fn end(by: &Exit, rest: &[Arc<Exit>], mut p: [c_ulong; PARAMS_MAX], has_return: bool) {
    if !rest.is_empty() {
        by.count_stop();
    }
    let mut unused: c_long = 0;
    if let ([.., value], true) = (&mut p, has_return) {
        *value = (&raw mut unused).expose_provenance();
    }
    for exit in rest.iter().filter(|e| e.is_called_anyway()) {
        // SAFETY: By the rules of this function.
        unsafe { exit.call::<PARAMS_MAX>(p) };
    }
}

/// # Safety
///
/// Called by a site, with a `Chain` and the parameters of its hook.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn dispatch<const N: usize>(
    chain: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    // SAFETY: By the rules of this function.
    unsafe { (*chain.cast::<Chain>()).dispatch::<N>([p0, p1, p2, p3, p4]) }
}

/// # Safety
///
/// As for [`dispatch`]; one of the exits could sleep, and only the count keeps the chain then.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn dispatch_counted<const N: usize>(
    chain: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    // SAFETY: By the rules of this function. The chain exists as long as this dispatch is counted.
    let this = unsafe { &*chain.cast::<Chain>() };
    let inside = this
        .inside
        .as_ref()
        .map_or(core::ptr::null_mut(), PerCpuCounter::as_ptr);
    // SAFETY: By the type invariant the counter exists.
    unsafe { inc_this_cpu(inside) };
    // SAFETY: By the rules of this function.
    let answer = unsafe { this.dispatch::<N>([p0, p1, p2, p3, p4]) };
    // SAFETY: This is the counter from above. The chain, which owns it, exists until this count is
    // taken back. Nothing of the chain is used afterwards.
    unsafe { dec_this_cpu(inside) };
    answer
}

/// # Safety
///
/// As for [`dispatch`], in a context that may sleep.
unsafe extern "C" fn dispatch_asleep(
    chain: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    // SAFETY: By the rules of this function, as long as the lock is held. Before that, this
    // dispatch has not slept, and waiters wait for such sections, too.
    let this = unsafe { &*chain.cast::<Chain>() };
    let Readers::Asleep(readers) = &this.readers else {
        return 0;
    };
    let readers = readers.as_ptr();
    let mut reader = bindings::ferro_hook_reader::default();
    // SAFETY: Process context; the lock is freed after the chain. The mark does not move.
    unsafe { bindings::ferro_hook_read_lock(readers, &raw mut reader) };
    // SAFETY: By the rules of this function.
    let answer = unsafe { this.dispatch::<PARAMS_MAX>([p0, p1, p2, p3, p4]) };
    // SAFETY: Undoes the locking. The lock is freed only after its last use.
    unsafe { bindings::ferro_hook_read_unlock(&raw mut reader) };
    answer
}
