// SPDX-License-Identifier: GPL-2.0

//! The engine's exits on the hook points of trampolines.
//!
//! Contexts: process, sleeps; the exits with `ftrace_lock` held, [`TrampolineFree`] also without.

use ferro_gkhi::points::TrampolineData;
use ferro_gkhi::points::TrampolineFree;
use ferro_gkhi::points::TrampolineSet;
use ferro_gkhi::points::TrampolineSets;
use ferro_gkhi::points::TrampolineUpdate;
use ferro_gkhi::Answer;
use ferro_gkhi::EnginePromise;
use ferro_gkhi::NoReturn;
use ferro_gkhi::Registered;
use kernel::prelude::*;

use super::func_data::DataChange;
use super::ops::Ops;
use super::ops_sets::SetChange;
use super::ops_sets::Step;

/// The answer of an exit that may have done what was asked for.
fn answer(done: bool) -> Answer<NoReturn> {
    match done {
        true => Answer::Terminate,
        false => Answer::Continue,
    }
}

/// The exits, not armed yet: an ops needs a trampoline, or another call in it; and needs it no longer. They return whether they
/// have dealt with it. Errors: as for `Builder::register_engine()`.
pub(crate) fn register(
    name: &CStr,
    update: fn(Ops<'_>) -> bool,
    free: fn(Ops<'_>) -> bool,
) -> Result<(Registered<TrampolineUpdate>, Registered<TrampolineFree>), ferro_gkhi::Error> {
    // SAFETY: What an exit leaves in an ops is what `Code::attach()` has written there. The hook passes an ops that is there until
    // the exit returns, with `ftrace_lock` held, with which alone its trampoline changes.
    let update = unsafe {
        Registered::<TrampolineUpdate>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (ops,)| {
                answer(Ops::new(ops).is_some_and(update))
            })
    }?;
    // SAFETY: The exit takes away what `Code::attach()` has left. The hook passes NULL or an ops that is there until the exit
    // returns, and that nobody uses, as it is not registered any more or has never been.
    let free = unsafe {
        Registered::<TrampolineFree>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (ops,)| {
                answer(Ops::new(ops).is_some_and(free))
            })
    }?;
    Ok((update, free))
}

/// The exits, not armed yet: a function has other ops, and sites are changed.
pub(crate) type SetExits = (Registered<TrampolineSet>, Registered<TrampolineSets>);

/// They. `set` returns whether it has answered. Errors: as for `Builder::register_engine()`.
pub(crate) fn register_sets(
    name: &CStr,
    set: fn(SetChange<'_>) -> bool,
    step: fn(Step<'_>),
) -> Result<SetExits, ferro_gkhi::Error> {
    // SAFETY: What an exit answers are numbers of `LiveSets`, which has for each the trampoline for the ops of the function. The
    // hook passes a change that is there until the exit returns, with `ftrace_lock` held.
    let set = unsafe {
        Registered::<TrampolineSet>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (change,)| {
                answer(SetChange::new(change).is_some_and(set))
            })
    }?;
    // SAFETY: The exit answers nothing. The hook fires with `ftrace_lock` held.
    let sets = unsafe {
        Registered::<TrampolineSets>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (now,)| {
                step(Step::new(now));
                Answer::Continue
            })
    }?;
    Ok((set, sets))
}

/// The exit, not armed yet: functions get data of their own, or lose it. Errors: as for `Builder::register_engine()`.
pub(crate) fn register_data(
    name: &CStr,
    change: fn(DataChange<'_>),
) -> Result<Registered<TrampolineData>, ferro_gkhi::Error> {
    // SAFETY: What the exit leaves in the entries are stubs of `DataOps`, each for its entry's data. The hook passes a change that
    // is there until the exit returns, with `ftrace_lock` held.
    unsafe {
        Registered::<TrampolineData>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (data,)| {
                if let Some(data) = DataChange::new(data) {
                    change(data);
                }
                Answer::Continue
            })
    }
}
