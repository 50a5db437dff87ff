// SPDX-License-Identifier: GPL-2.0

//! The sets of ops that functions have, with their trampolines.
//!
//! Contexts: process, sleeps; with `ftrace_lock` held, which a [`SetChange`] and a [`Step`] show, where nothing else is said.
//! What is in the sets that functions have are ops that are registered: ftrace says when a function has other ones, and the
//! other sets are found no longer before it is done with an ops ([`LiveSets::settle`]), or call it no longer
//! ([`LiveSets::give_up`]).

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_core::tramp::Change;
use ferro_core::tramp::Event;
use ferro_core::tramp::Ftrace;
use ferro_core::tramp::Members;
use ferro_core::tramp::Place;
use ferro_core::tramp::Places;
use ferro_core::tramp::Sets;
use ferro_core::tramp::MANY;
use ferro_core::tramp::MAX_MEMBERS;
use ferro_core::tramp::MAX_SETS;
use kernel::bindings;
use kernel::prelude::*;

use super::func_data::DataOps;
use super::ops::Ops;
use super::shared_trampoline::Reclaimable;
use super::shared_trampoline::Retired;
use super::shared_trampoline::SharedTrampoline;
use super::template::Templates;

const _: () = assert!(MAX_SETS == bindings::FTRACE_SETS as usize);

/// The bit that all addresses of the kernel have, `FTRACE_SET_KERNEL`.
const KERNEL: usize = 1 << 63;

/// A function that has other ops, which ftrace waits for the set of.
///
/// # Invariants
///
/// The structure is there for `'a`, and says what is so. `ftrace_lock` is held.
pub(crate) struct SetChange<'a>(NonNull<bindings::ftrace_set_change>, PhantomData<&'a ()>);

/// Where ftrace is with changing sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// It is about to.
    Before,
    /// It has.
    After,
    /// It has given up: a site may call what it called before.
    GivenUp,
}

/// ftrace changes sites.
///
/// # Invariants
///
/// `ftrace_lock` is held for `'a`. All ops in sets that sites may call are there for `'a`, and so is each that has a trampoline.
pub(crate) struct Step<'a> {
    when: When,
    _lock: PhantomData<&'a ()>,
}

impl SetChange<'_> {
    /// [`None`] for NULL.
    ///
    /// # Safety
    ///
    /// `change` is NULL, or what ftrace passes to the hook, for `'a`.
    pub(super) unsafe fn new(change: *mut bindings::ftrace_set_change) -> Option<Self> {
        // INVARIANT: The caller guarantees it.
        NonNull::new(change).map(|change| Self(change, PhantomData))
    }

    fn get(&self) -> Change {
        // SAFETY: By the type invariant it is there, and nobody changes it meanwhile.
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
        // SAFETY: By the type invariant it is there, and the field is the exit's.
        unsafe { (*self.0.as_ptr()).set = usize::from(set) };
    }
}

impl Step<'_> {
    /// # Safety
    ///
    /// `step` is what ftrace passes to the hook, for `'a`.
    pub(super) unsafe fn new(step: u32) -> Self {
        // INVARIANT: ftrace holds its lock while it fires the hook. An ops that goes is there until ftrace has changed sites, or
        // given up.
        Self {
            when: match step {
                bindings::ftrace_sets_step_FTRACE_SETS_CHANGE => When::Before,
                bindings::ftrace_sets_step_FTRACE_SETS_CHANGED => When::After,
                _ => When::GivenUp,
            },
            _lock: PhantomData,
        }
    }

    /// Where it is.
    pub(crate) fn when(&self) -> When {
        self.when
    }
}

/// What ftrace knows, while its lock is held.
struct Kernel;

fn raw_ops(address: usize) -> *mut bindings::ftrace_ops {
    core::ptr::with_exposed_provenance_mut(address)
}

impl Ftrace for Kernel {
    fn is_before(&self, ops: usize, other: usize) -> bool {
        // SAFETY: It compares the addresses with those in its list. This is used within `LiveSets::change()`, with `ftrace_lock`.
        unsafe { bindings::ferro_tramp_is_before(raw_ops(ops), raw_ops(other)) }
    }

    fn ops_of(&self, ip: usize, but: Option<usize>) -> Option<Members> {
        let but = but.map_or(core::ptr::null_mut(), raw_ops);
        let mut found = [core::ptr::null_mut(); MAX_MEMBERS];
        let most = u32::try_from(MAX_MEMBERS).unwrap_or_default();
        // SAFETY: There is room for so many. This is used within `LiveSets::change()`, with `ftrace_lock`.
        let count = unsafe { bindings::ferro_tramp_ops_of(ip, but, found.as_mut_ptr(), most) };
        let count = usize::try_from(count).ok()?;
        let found = found.map(|ops: *mut bindings::ftrace_ops| ops.expose_provenance());
        Members::new(found.get(..count)?)
    }
}

/// Why functions of a set call ftrace's list function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallbackReason {
    /// They have too many ops.
    Many,
    /// One of the ops has functions call others directly, which takes a trampoline of ftrace's own.
    Direct,
    /// There was no memory, or no room in reach.
    NoMemory,
}

/// What a set has.
enum SetTramp {
    /// Of one ops: its own trampoline, whoever made it; 0 if it has none. Or, without [`KERNEL`], the address of the ops, if it is
    /// that of a `struct ftrace_data_ops`.
    Own(usize),
    Made(KBox<SharedTrampoline>),
    FallbackReason(FallbackReason),
}

#[derive(Default)]
struct Room(KVVec<Place<SetTramp>>);

impl Places for Room {
    type Code = SetTramp;

    fn all(&self) -> &[Place<SetTramp>] {
        &self.0
    }

    fn all_mut(&mut self) -> &mut [Place<SetTramp>] {
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

/// The sets that there are, with their trampolines.
pub(crate) struct LiveSets {
    sets: Sets<Room>,
    /// There is a [`Quiescing`] or a [`Quiesced`].
    leaving: bool,
}

/// A set, for the list.
pub(crate) struct SetEntry {
    /// How many ops; 0 if they are too many.
    pub(crate) members: usize,
    /// How many functions.
    pub(crate) functions: u32,
    /// Where its trampoline is, what it uses, its slot, and whether callbacks get all registers.
    pub(crate) made: Result<(usize, usize, usize, bool), FallbackReason>,
}

fn set_address(set: u16, address: usize) {
    let all = (&raw mut bindings::ftrace_set_addresses).cast::<usize>();
    if usize::from(set) < MAX_SETS {
        // SAFETY: It has so many words. They are used with `ftrace_lock` held; the callers hold it, or nobody has the number.
        unsafe { all.add(usize::from(set)).write_volatile(address) };
    }
}

impl LiveSets {
    pub(crate) fn new() -> Self {
        Self {
            sets: Sets::new(Room::default()),
            leaving: false,
        }
    }

    /// Says which set a function has; none if `none` says so.
    pub(crate) fn change(&mut self, change: SetChange<'_>, none: bool) {
        let mut what = change.get();
        if none {
            what.event = Event::Drop;
        }
        let set = self.sets.change(&what, &Kernel);
        change.answer(set);
    }

    /// Makes trampolines for the sets that functions have now.
    pub(crate) fn prepare(&mut self, _step: &Step<'_>, templates: &Templates, data: &DataOps) {
        self.sets.prepare(|set, members| {
            let tramp = match members.as_slice() {
                [ops] if data.has(*ops) => SetTramp::Own(ops & !KERNEL),
                _ => Self::make(members, templates),
            };
            let address = match &tramp {
                SetTramp::Own(address) => *address,
                SetTramp::Made(made) => made.code().address(),
                SetTramp::FallbackReason(_) => 0,
            };
            set_address(set, address);
            Some(tramp)
        });
    }

    fn make(members: &Members, templates: &Templates) -> SetTramp {
        let mut raw = [core::ptr::null_mut(); MAX_MEMBERS];
        let (mut saves_regs, mut direct, mut own) = (false, false, 0);
        for (raw, address) in raw.iter_mut().zip(members.as_slice()) {
            *raw = raw_ops(*address);
            // SAFETY: It is a member of a set that a function has: an ops that is registered, and stays so with `ftrace_lock`.
            if let Some(ops) = unsafe { Ops::new(*raw) } {
                saves_regs |= ops.saves_regs();
                direct |= ops.is_direct();
                own = ops.trampoline();
            }
        }
        match raw.get_mut(..members.len()) {
            Some([_]) => SetTramp::Own(own),
            Some(_) if direct => SetTramp::FallbackReason(FallbackReason::Direct),
            Some(members @ [_, ..]) => SharedTrampoline::of_set(members, saves_regs, templates)
                .map_or(
                    SetTramp::FallbackReason(FallbackReason::NoMemory),
                    SetTramp::Made,
                ),
            _ => SetTramp::FallbackReason(FallbackReason::Many),
        }
    }

    /// Sites are as they are to be. Whether there are trampolines that nobody calls any more, and nobody waits for yet.
    pub(crate) fn settle(&mut self, _step: &Step<'_>) -> bool {
        self.sets.settle()
    }

    /// The function of an ops has changed.
    pub(crate) fn aim(&mut self, ops: Ops<'_>) {
        self.sets.of_member(ops.address(), |tramp, at| {
            if let (SetTramp::Made(made), Ok(at)) = (tramp, u32::try_from(at)) {
                // SAFETY: It is a member of this set, at that place, and there.
                unsafe { bindings::ferro_tramp_set_aim(made.ops(), at) };
            }
        });
    }

    /// ftrace has given up: what its functions call, also one that has other ops now, no longer calls an ops that has just gone.
    pub(crate) fn give_up(&mut self, _step: &Step<'_>) {
        for tramp in self.sets.codes() {
            if let SetTramp::Made(made) = tramp {
                // SAFETY: As a `Step` shows, its members are there, and `ftrace_lock` is held.
                unsafe { bindings::ferro_tramp_set_give_up(made.ops()) };
            }
        }
    }

    /// For each set that functions have.
    pub(crate) fn each(
        &self,
        mut f: impl FnMut(&SetEntry) -> core::fmt::Result,
    ) -> core::fmt::Result {
        for (set, place) in self.sets.used() {
            let made = match place.code() {
                Some(SetTramp::Made(made)) => {
                    let code = made.code();
                    Ok((
                        code.address(),
                        code.used(),
                        code.slot_len(),
                        made.saves_regs(),
                    ))
                }
                Some(SetTramp::FallbackReason(why)) => Err(*why),
                None if set == usize::from(MANY) => Err(FallbackReason::Many),
                // Those are listed with their ops, or no site calls them yet.
                _ => continue,
            };
            f(&SetEntry {
                members: place.members().len(),
                functions: place.users(),
                made,
            })?;
        }
        Ok(())
    }

    /// Begins to free the trampolines that no function has any more, and the closed ones; [`None`] if there are none, or somebody
    /// has begun. Context: with `ftrace_lock` or without.
    pub(crate) fn begin_leaving(&mut self, closed: Retired) -> Option<Quiescing> {
        let sets = !self.leaving && self.sets.begin_leaving();
        if !sets && closed.is_empty() {
            return None;
        }
        self.leaving |= sets;
        Some(Quiescing { sets, closed })
    }

    /// Takes them. Context: with `ftrace_lock` or without.
    pub(crate) fn left(&mut self, Quiesced(gone): Quiesced) -> Reclaimable {
        let mut all = gone.closed;
        if gone.sets {
            self.leaving = false;
            while let Some((set, tramp)) = self.sets.release() {
                set_address(set, 0);
                if let Some(SetTramp::Made(made)) = tramp {
                    all.close(made);
                }
            }
        }
        // SAFETY: What `begin_leaving()` has found, alone, and what was closed before it, is what a `Quiesced` says nobody is in.
        unsafe { all.left() }
    }
}

/// Those who are in trampolines that nobody calls are to be waited for.
pub(crate) struct Quiescing {
    /// There are sets without functions.
    sets: bool,
    closed: Retired,
}

/// They have been.
pub(crate) struct Quiesced(Quiescing);

impl Quiescing {
    /// Waits. Context: without locks.
    pub(crate) fn wait(self) -> Quiesced {
        // SAFETY: Has no requirement but that this may sleep.
        unsafe { bindings::ferro_tramp_wait() };
        Quiesced(self)
    }
}

/// Has `engine::left()` called soon, in a work item; once if it has not begun.
pub(crate) fn call_later() {
    extern "C" fn later() {
        crate::registry::left();
    }
    // SAFETY: The function is there until `call_stop()`, which the engine's last step is.
    unsafe { bindings::ferro_tramp_call_later(Some(later)) };
}

/// It is not called any more, and has returned. Context: without locks.
pub(crate) fn call_stop() {
    // SAFETY: Has no requirement but that this may sleep.
    unsafe { bindings::ferro_tramp_call_stop() };
}
