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
use super::step::Step;

/// Handler for the requests and reports of ftrace.
pub(crate) trait TrampolineHandler: 'static {
    /// Creates or updates the trampoline of an ops. Returns false if the kernel has to do it.
    fn update(ops: Ops<'_>) -> bool;

    /// Frees the trampoline of an ops. Returns false if the kernel has to do it.
    fn free(ops: Ops<'_>) -> bool;

    /// Handles a change of a function's ops. Returns true if it has reported the function's set.
    fn change_set(change: SetChange<'_>) -> bool;

    /// Handles a step of an update of call sites.
    fn step(step: Step<'_>);

    /// Attaches or detaches per-function data.
    fn change_data(change: DataChange<'_>);
}

/// Converts the result of a handler into the answer of its exit: true ends the chain.
fn answer(done: bool) -> Answer<NoReturn> {
    match done {
        true => Answer::Terminate,
        false => Answer::Continue,
    }
}

/// Registered exits, in the order of their removal.
pub(crate) struct Exits {
    pub(crate) update: Registered<TrampolineUpdate>,
    pub(crate) data: Registered<TrampolineData>,
    pub(crate) free: Registered<TrampolineFree>,
    pub(crate) set: Registered<TrampolineSet>,
    pub(crate) step: Registered<TrampolineSets>,
}

impl Exits {
    /// Registers the exits disarmed. Errors: as for `Builder::register_engine()`.
    pub(crate) fn register<H: TrampolineHandler>(name: &CStr) -> Result<Self, ferro_gkhi::Error> {
        // SAFETY: The exit stores in an ops only the result of `Trampoline::attach()`. The hook
        // passes an ops valid until the exit returns. ftrace holds `ftrace_lock`, and changes the
        // trampoline of an ops only with this lock.
        let update = unsafe {
            Registered::<TrampolineUpdate>::builder(name)
                .disarmed()
                .register_engine(EnginePromise::new(), |_call, (ops,)| {
                    answer(Ops::new(ops).is_some_and(H::update))
                })
        }?;
        // SAFETY: The exit stores in the entries only stubs of `DataTrampolines`, each for its
        // entry's data. The hook passes a change valid until the exit returns, with `ftrace_lock`
        // held.
        let data = unsafe {
            Registered::<TrampolineData>::builder(name)
                .disarmed()
                .register_engine(EnginePromise::new(), |_call, (change,)| {
                    if let Some(change) = DataChange::new(change) {
                        H::change_data(change);
                    }
                    Answer::Continue
                })
        }?;
        // SAFETY: The exit removes the trampoline that `Trampoline::attach()` has stored. The hook
        // passes NULL, or an ops valid until the exit returns. The ops is unused: no longer
        // registered, or never registered.
        let free = unsafe {
            Registered::<TrampolineFree>::builder(name)
                .disarmed()
                .register_engine(EnginePromise::new(), |_call, (ops,)| {
                    answer(Ops::new(ops).is_some_and(H::free))
                })
        }?;
        // SAFETY: The exit answers with a number of `LiveSets`, which has the trampoline for the
        // ops of that function. The hook passes a change valid until the exit returns, with
        // `ftrace_lock` held.
        let set = unsafe {
            Registered::<TrampolineSet>::builder(name)
                .disarmed()
                .register_engine(EnginePromise::new(), |_call, (change,)| {
                    answer(SetChange::new(change).is_some_and(H::change_set))
                })
        }?;
        // SAFETY: The exit answers nothing. The hook fires with `ftrace_lock` held.
        let step = unsafe {
            Registered::<TrampolineSets>::builder(name)
                .disarmed()
                .register_engine(EnginePromise::new(), |_call, (step,)| {
                    H::step(Step::new(step));
                    Answer::Continue
                })
        }?;
        Ok(Self {
            update,
            data,
            free,
            set,
            step,
        })
    }

    /// Arms all exits at once: the engine that makes a trampoline has to free it. Errors: as for
    /// `ferro_gkhi::arm()`.
    pub(crate) fn arm(&self) -> Result<(), ferro_gkhi::Error> {
        ferro_gkhi::arm(&[&self.update, &self.data, &self.free, &self.set, &self.step])
    }
}
