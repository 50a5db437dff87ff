// SPDX-License-Identifier: GPL-2.0

//! Several exits, called in order; and changing several hooks in one step.
//!
//! Contexts: dispatching wherever the hook is, NMI included; making and switching in process context.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;

use kernel::bindings;
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

/// The one word that decides for several chains which exits they call.
pub struct Switch(AtomicBool);

impl Switch {
    /// Not thrown yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// From now on all chains that have this switch call their later exits.
    ///
    /// The other CPUs are stopped meanwhile, so that it falls into no section of theirs that has interrupts or
    /// preemption off; and for NMIs, which cannot be stopped, it is a single store.
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
        // SAFETY: `run` gets what it expects, and has returned when this does.
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
/// `raw` comes first, its `fn` is `dispatch` for the hook's parameters, `dispatch_counted`, or `dispatch_asleep` if there is
/// a lock in `readers`, and its `hits` is that of `_hits`.
#[repr(C)]
pub struct Chain {
    raw: UnsafeCell<bindings::gkh_exit>,
    now: KVec<Arc<Exit>>,
    /// What is called when the switch has been thrown.
    later: Option<(Arc<Switch>, KVec<Arc<Exit>>)>,
    /// Those who wait for the chain wait for these.
    readers: Readers,
    /// The hook's exits can make the function return: the last parameter says where the value goes.
    has_return: bool,
    /// Dispatches that are going on, if one of the exits could sleep in them where it must not.
    inside: Option<PerCpuCounter>,
    /// What the site counts in.
    _hits: Arc<PerCpuCounter>,
}

// SAFETY: Its parts may be sent, but for the pointers in `raw`: those are NULL, or to the counter that `_hits` keeps.
unsafe impl Send for Chain {}
// SAFETY: Nobody writes `raw` after it has been made; the counters and the switch are made for several CPUs at once.
unsafe impl Sync for Chain {}

impl Chain {
    /// A chain for this hook, of exits that were made for it. Errors: -ENOMEM.
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
            // The return value comes after all other parameters.
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
        // INVARIANT: As it says.
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

    /// Whether its dispatches are counted, since one of the exits could sleep where it must not.
    pub(super) fn is_counted(&self) -> bool {
        self.inside.is_some()
    }

    /// Whether a dispatch is going on although the chain has been taken out of use and all CPUs have been waited for.
    pub(super) fn is_called(&self) -> bool {
        self.inside.as_ref().is_some_and(|inside| inside.sum() != 0)
    }

    /// With the right to all of `self`: it comes back as a pointer to that.
    pub(super) fn as_ptr(&self) -> *const bindings::gkh_exit {
        core::ptr::from_ref(self).cast()
    }

    /// # Safety
    ///
    /// The parameters are those of the hook, which has no more than `N` if that is not the most that can be.
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

/// Calls the pinned exits after the one that has ended a dispatch. Their answers do not count, and
/// neither do the values that they give the function to return.
///
/// # Safety
///
/// The parameters are those of the hook; `has_return` is its, too.
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
    for exit in rest.iter().filter(|e| e.is_pinned()) {
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
/// As for [`dispatch`]; one of the exits could sleep, and nothing else would keep the chain then.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn dispatch_counted<const N: usize>(
    chain: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    // SAFETY: By the rules of this function. The chain stays as long as this is counted.
    let this = unsafe { &*chain.cast::<Chain>() };
    let inside = this
        .inside
        .as_ref()
        .map_or(core::ptr::null_mut(), PerCpuCounter::as_ptr);
    // SAFETY: By the type invariant there is one.
    unsafe { inc_this_cpu(inside) };
    // SAFETY: By the rules of this function.
    let answer = unsafe { this.dispatch::<N>([p0, p1, p2, p3, p4]) };
    // SAFETY: It is the counter from above, and until this count is taken back the chain, which owns it, stays. Nothing of
    // the chain is used after this.
    unsafe { dec_this_cpu(inside) };
    answer
}

/// # Safety
///
/// As for [`dispatch`], where one may sleep.
unsafe extern "C" fn dispatch_asleep(
    chain: *const bindings::gkh_exit,
    p0: c_ulong,
    p1: c_ulong,
    p2: c_ulong,
    p3: c_ulong,
    p4: c_ulong,
) -> c_long {
    // SAFETY: By the rules of this function, as long as the lock is held; until then nobody has slept in here, which is
    // waited for too.
    let this = unsafe { &*chain.cast::<Chain>() };
    let Readers::Asleep(readers) = &this.readers else {
        return 0;
    };
    let readers = readers.as_ptr();
    let mut reader = bindings::ferro_hook_reader::default();
    // SAFETY: Process context; the lock goes after the chain. The mark stays where it is.
    unsafe { bindings::ferro_hook_read_lock(readers, &raw mut reader) };
    // SAFETY: By the rules of this function.
    let answer = unsafe { this.dispatch::<PARAMS_MAX>([p0, p1, p2, p3, p4]) };
    // SAFETY: Undoes the locking. Whoever frees the lock waits until it is no longer used.
    unsafe { bindings::ferro_hook_read_unlock(&raw mut reader) };
    answer
}
