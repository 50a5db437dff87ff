// SPDX-License-Identifier: GPL-2.0

//! Sets of ops that trace the same function, with their trampolines.
//!
//! Contexts: process, sleeps; `ftrace_lock` held, which a [`SetChange`] and a [`Step`] prove,
//! unless noted otherwise.
//!
//! A set is in use while functions have it. Its ops are registered, as ftrace reports each change
//! of a function's ops. A set without functions may have an ops about to be unregistered. Before
//! ftrace is done with that ops, [`LiveSets::sites_changed`] removes the set from the lookup. If
//! ftrace has failed, [`LiveSets::handle_failure`] makes the set no longer call the ops.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_ftrace_tramp_core::Change;
use ferro_ftrace_tramp_core::Event;
use ferro_ftrace_tramp_core::Ftrace;
use ferro_ftrace_tramp_core::Members;
use ferro_ftrace_tramp_core::Place;
use ferro_ftrace_tramp_core::Places;
use ferro_ftrace_tramp_core::Sets;
use ferro_ftrace_tramp_core::MANY;
use ferro_ftrace_tramp_core::MAX_MEMBERS;
use ferro_ftrace_tramp_core::MAX_SETS;
use ferro_sys::bindings;
use kernel::prelude::*;

use super::func_data::DataTrampolines;
use super::ops::Ops;
use super::rebuild::is_detaching;
use super::shared_trampoline::Reclaimable;
use super::shared_trampoline::Retired;
use super::shared_trampoline::SharedTrampoline;
use super::step::Step;
use super::template::Templates;
use super::trampoline::TrampolineInfo;

const _: () = assert!(MAX_SETS == bindings::FTRACE_SETS as usize);

/// Bit of all kernel addresses, `FTRACE_SET_KERNEL`.
const KERNEL: usize = 1 << 63;

/// Change of a function's ops; ftrace waits for the number of its new set.
///
/// # Invariants
///
/// The structure is valid and accurate for `'a`. `ftrace_lock` is held.
pub(crate) struct SetChange<'a>(NonNull<bindings::ftrace_set_change>, PhantomData<&'a ()>);

impl SetChange<'_> {
    /// Returns [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `change` is NULL, or the pointer that ftrace passes to the hook, for `'a`.
    pub(super) unsafe fn new(change: *mut bindings::ftrace_set_change) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(change).map(|change| Self(change, PhantomData))
    }

    fn get(&self) -> Change {
        // SAFETY: Valid by the type invariant, and no other code changes it for `'a`.
        let raw = unsafe { self.0.as_ref() };
        let ops = raw.ops.expose_provenance();
        Change {
            event: match raw.event {
                bindings::ftrace_set_event_FTRACE_SET_ADD => Event::Add(ops),
                bindings::ftrace_set_event_FTRACE_SET_REMOVE => Event::Remove(ops),
                bindings::ftrace_set_event_FTRACE_SET_FIND => Event::Find,
                _ => Event::Drop,
            },
            ip: raw.ip,
            count: raw.count,
            set: u16::try_from(raw.set).unwrap_or_default(),
        }
    }

    fn answer(self, set: u16) {
        // SAFETY: Valid by the type invariant, and the exit owns the field.
        unsafe { (*self.0.as_ptr()).set = usize::from(set) };
    }
}

/// ftrace's lists of ops and functions, while its lock is held.
struct LockedFtrace;

fn raw_ops(address: usize) -> *mut bindings::ftrace_ops {
    core::ptr::with_exposed_provenance_mut(address)
}

impl Ftrace for LockedFtrace {
    fn is_before(&self, ops: usize, other: usize) -> bool {
        // SAFETY: The function only compares the addresses with those in ftrace's list. This is
        // used within `LiveSets::change()`, with `ftrace_lock`.
        unsafe { bindings::ferro_tramp_is_before(raw_ops(ops), raw_ops(other)) }
    }

    fn ops_of(&self, ip: usize, but: Option<usize>) -> Option<Members> {
        let but = but.map_or(core::ptr::null_mut(), raw_ops);
        let mut found = [core::ptr::null_mut(); MAX_MEMBERS];
        let most = u32::try_from(MAX_MEMBERS).unwrap_or_default();
        // SAFETY: `found` has room for `most` pointers. This is used within `LiveSets::change()`,
        // with `ftrace_lock`.
        let count = unsafe { bindings::ferro_tramp_ops_of(ip, but, found.as_mut_ptr(), most) };
        let count = usize::try_from(count).ok()?;
        let found = found.map(|ops: *mut bindings::ftrace_ops| ops.expose_provenance());
        Members::new(found.get(..count)?)
    }
}

/// Reason why functions of a set call ftrace's list function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallbackReason {
    /// Too many ops.
    Many,
    /// One of the ops makes direct calls, which need ftrace's own trampoline.
    Direct,
    /// Out of memory, or out of pool memory in reach.
    NoMemory,
}

/// Call target of a set.
enum SetTarget {
    /// For a single ops, the address of its own trampoline, regardless of its maker; 0 if it has
    /// none. For a `struct ftrace_data_ops`, the address of the ops without [`KERNEL`].
    Own(usize),
    Shared(KBox<SharedTrampoline>),
    ListFunction(FallbackReason),
}

#[derive(Default)]
struct SetPlaces(KVVec<Place<SetTarget>>);

impl Places for SetPlaces {
    type Code = SetTarget;

    fn all(&self) -> &[Place<SetTarget>] {
        &self.0
    }

    fn all_mut(&mut self) -> &mut [Place<SetTarget>] {
        &mut self.0
    }

    fn grow(&mut self) -> bool {
        let len = self.0.len().saturating_mul(2).clamp(16, MAX_SETS);
        while self.0.len() < len {
            if self.0.push(Place::default(), GFP_KERNEL).is_err() {
                break;
            }
        }
        self.0.len() >= len
    }
}

/// All sets in use, with their trampolines.
pub(crate) struct LiveSets {
    sets: Sets<SetPlaces>,
    /// A [`Quiescing`] or a [`Quiesced`] exists.
    reclaiming: bool,
}

/// Set of ops, for the debugfs list.
pub(crate) struct SetInfo {
    /// Number of ops; 0 for more than [`MAX_MEMBERS`].
    pub(crate) members: usize,
    /// Number of functions.
    pub(crate) functions: u32,
    /// Trampoline of the set, or the reason why the functions call ftrace's list function.
    pub(crate) trampoline: Result<TrampolineInfo, FallbackReason>,
}

/// Sets the word of a set with the call target for ftrace, as [`SetTarget::Own`]
/// describes it; 0 stands for ftrace's list function.
fn set_address(set: u16, address: usize) {
    let all = (&raw mut bindings::ftrace_set_addresses).cast::<usize>();
    if usize::from(set) < MAX_SETS {
        // SAFETY: The array has `MAX_SETS` words. ftrace uses them with `ftrace_lock` held. Callers
        // hold the lock, or no function has the number.
        unsafe { all.add(usize::from(set)).write_volatile(address) };
    }
}

impl LiveSets {
    pub(crate) fn new() -> Self {
        Self {
            sets: Sets::new(SetPlaces::default()),
            reclaiming: false,
        }
    }

    /// Reports the new set of a function to ftrace, or no set if the engine is being detached.
    pub(crate) fn change(&mut self, change: SetChange<'_>) {
        let mut request = change.get();
        if is_detaching() {
            request.event = Event::Drop;
        }
        let set = self.sets.change(&request, &LockedFtrace);
        change.answer(set);
    }

    /// Makes trampolines for the sets in use.
    pub(crate) fn prepare(
        &mut self,
        _step: &Step<'_>,
        templates: &Templates,
        data: &DataTrampolines,
    ) {
        self.sets.prepare(|set, members| {
            let target = match members.as_slice() {
                [ops] if data.has(*ops) => SetTarget::Own(ops & !KERNEL),
                _ => Self::make_target(members, templates),
            };
            let address = match &target {
                SetTarget::Own(address) => *address,
                SetTarget::Shared(shared) => shared.trampoline().address(),
                SetTarget::ListFunction(_) => 0,
            };
            set_address(set, address);
            Some(target)
        });
    }

    fn make_target(members: &Members, templates: &Templates) -> SetTarget {
        let mut raw = [core::ptr::null_mut(); MAX_MEMBERS];
        let (mut saves_regs, mut direct, mut own) = (false, false, 0);
        for (raw, address) in raw.iter_mut().zip(members.as_slice()) {
            *raw = raw_ops(*address);
            // SAFETY: A member of a set in use: a registered ops, which stays so with
            // `ftrace_lock`.
            if let Some(ops) = unsafe { Ops::new(*raw) } {
                saves_regs |= ops.saves_regs();
                direct |= ops.is_direct();
                own = ops.trampoline();
            }
        }
        match raw.get_mut(..members.len()) {
            Some([_]) => SetTarget::Own(own),
            Some(_) if direct => SetTarget::ListFunction(FallbackReason::Direct),
            Some(members @ [_, ..]) => SharedTrampoline::of_set(members, saves_regs, templates)
                .map_or(
                    SetTarget::ListFunction(FallbackReason::NoMemory),
                    SetTarget::Shared,
                ),
            _ => SetTarget::ListFunction(FallbackReason::Many),
        }
    }

    /// Records that all sites call the sets of their functions. Returns true if there are unused
    /// trampolines without a reclaim in progress.
    pub(crate) fn sites_changed(&mut self, _step: &Step<'_>) -> bool {
        self.sets.settle()
    }

    /// Updates the function of an ops in all sets that contain it.
    pub(crate) fn retarget(&mut self, ops: Ops<'_>) {
        self.sets.of_member(ops.address(), |target, at| {
            if let (SetTarget::Shared(shared), Ok(at)) = (target, u32::try_from(at)) {
                // SAFETY: The ops is valid, and the member of this set at that position.
                unsafe { bindings::ferro_tramp_set_retarget(shared.ops(), at) };
            }
        });
    }

    /// Handles ftrace's failure: sites stuck with an old set no longer call an ops that has just
    /// been unregistered.
    pub(crate) fn handle_failure(&mut self, _step: &Step<'_>) {
        for target in self.sets.codes() {
            if let SetTarget::Shared(shared) = target {
                // SAFETY: As a `Step` proves, its members are valid, and `ftrace_lock` is held.
                unsafe { bindings::ferro_tramp_set_handle_failure(shared.ops()) };
            }
        }
    }

    /// Calls `f` for each set of several ops in use.
    pub(crate) fn each(
        &self,
        mut f: impl FnMut(&SetInfo) -> core::fmt::Result,
    ) -> core::fmt::Result {
        for (set, place) in self.sets.used() {
            let trampoline = match place.code() {
                Some(SetTarget::Shared(shared)) => Ok(shared.trampoline().info()),
                Some(SetTarget::ListFunction(why)) => Err(*why),
                None if set == usize::from(MANY) => Err(FallbackReason::Many),
                // Sets of one ops are listed with their ops; for the others no site calls them yet.
                _ => continue,
            };
            f(&SetInfo {
                members: place.members().len(),
                functions: place.users(),
                trampoline,
            })?;
        }
        Ok(())
    }

    /// Begins to free retired trampolines, and the trampolines of sets without functions. Returns
    /// [`None`] if there are none, or if another [`Quiescing`] covers them. Context: with
    /// `ftrace_lock` or without.
    pub(crate) fn begin_reclaim(&mut self, retired: Retired) -> Option<Quiescing> {
        let sets = !self.reclaiming && self.sets.begin_leaving();
        if !sets && retired.is_empty() {
            return None;
        }
        self.reclaiming |= sets;
        Some(Quiescing { sets, retired })
    }

    /// Frees the numbers of the unused sets, and returns the unused trampolines. Context: with
    /// `ftrace_lock` or without.
    pub(crate) fn take_reclaimable(&mut self, Quiesced(unused): Quiesced) -> Reclaimable {
        let mut all = unused.retired;
        if unused.sets {
            self.reclaiming = false;
            while let Some((set, target)) = self.sets.release() {
                set_address(set, 0);
                if let Some(SetTarget::Shared(shared)) = target {
                    all.add(shared);
                }
            }
        }
        // SAFETY: These were unused when `begin_reclaim()` found them, and the retired ones were
        // retired before it. A `Quiesced` proves that no task is in them.
        unsafe { all.into_reclaimable() }
    }
}

/// Unused trampolines that a task may still be in.
pub(crate) struct Quiescing {
    /// True if this covers the trampolines of sets without functions.
    sets: bool,
    retired: Retired,
}

/// Unused trampolines that no task is in.
pub(crate) struct Quiesced(Quiescing);

impl Quiescing {
    /// Waits until no task is in these trampolines. Context: without locks.
    pub(crate) fn wait(self) -> Quiesced {
        // SAFETY: Requires only that this may sleep.
        unsafe { bindings::ferro_tramp_wait() };
        Quiesced(self)
    }
}

/// Schedules a work item that calls `reclaim`; calls before it starts are merged. All callers pass
/// the same function.
pub(crate) fn schedule_reclaim(reclaim: extern "C" fn()) {
    // SAFETY: The function stays valid until `cancel_reclaim()`, the engine's last step.
    unsafe { bindings::ferro_tramp_schedule_reclaim(Some(reclaim)) };
}

/// Cancels the work item, or waits for it. Context: without locks.
pub(crate) fn cancel_reclaim() {
    // SAFETY: Requires only that this may sleep.
    unsafe { bindings::ferro_tramp_cancel_reclaim() };
}
