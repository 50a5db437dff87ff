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

/// Converts an exit's result into its answer: true ends the chain.
fn answer(done: bool) -> Answer<NoReturn> {
    match done {
        true => Answer::Terminate,
        false => Answer::Continue,
    }
}

/// Registers the disarmed exits that create, update and free trampolines. Both return true if they
/// have handled the ops. Errors: as for `Builder::register_engine()`.
pub(crate) fn register(
    name: &CStr,
    update: fn(Ops<'_>) -> bool,
    free: fn(Ops<'_>) -> bool,
) -> Result<(Registered<TrampolineUpdate>, Registered<TrampolineFree>), ferro_gkhi::Error> {
    // SAFETY: The exit stores in an ops only the result of `Trampoline::attach()`. The hook passes
    // an ops that is valid until the exit returns. It holds `ftrace_lock`, without which the
    // trampoline of an ops never changes.
    let update = unsafe {
        Registered::<TrampolineUpdate>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (ops,)| {
                answer(Ops::new(ops).is_some_and(update))
            })
    }?;
    // SAFETY: The exit removes the trampoline that `Trampoline::attach()` has stored. The hook
    // passes NULL, or an ops that is valid until the exit returns. The ops is unused: no longer
    // registered, or never registered.
    let free = unsafe {
        Registered::<TrampolineFree>::builder(name)
            .disarmed()
            .register_engine(EnginePromise::new(), move |_call, (ops,)| {
                answer(Ops::new(ops).is_some_and(free))
            })
    }?;
    Ok((update, free))
}

/// Disarmed exits for changes of a function's ops and for changes of sites.
pub(crate) type SetExits = (Registered<TrampolineSet>, Registered<TrampolineSets>);

/// Registers the exits. `set` returns true if it has answered. Errors: as for
/// `Builder::register_engine()`.
pub(crate) fn register_sets(
    name: &CStr,
    set: fn(SetChange<'_>) -> bool,
    step: fn(Step<'_>),
) -> Result<SetExits, ferro_gkhi::Error> {
    // SAFETY: An exit answers with a number of `LiveSets`, which has the trampoline for the ops of
    // that function. The hook passes a change valid until the exit returns, with `ftrace_lock`
    // held.
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

/// Registers the disarmed exit for per-function data. Errors: as for `Builder::register_engine()`.
pub(crate) fn register_data(
    name: &CStr,
    change: fn(DataChange<'_>),
) -> Result<Registered<TrampolineData>, ferro_gkhi::Error> {
    // SAFETY: The exit stores in the entries only stubs of `DataTrampolines`, each for its entry's
    // data. The hook passes a change that is valid until the exit returns, with `ftrace_lock` held.
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
