// SPDX-License-Identifier: GPL-2.0

//! Callbacks that prepare a CPU before it is brought up.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_sys::cpu::CpuId;
use ferro_sys::hook::points::CpuPrepare;
use ferro_sys::hook::typed::Answer;
use ferro_sys::hook::typed::Call;
use kernel::prelude::*;

use crate::error::Error;
use crate::exit::Registered;

impl Registered<CpuPrepare> {
    /// Registers `prepare`, which is called before a CPU is brought up; an error keeps the CPU
    /// offline. The exit is pinned and armed. CPUs that are online already get no call.
    ///
    /// Context: process; sleeps. `prepare` is called in process context with CPU hotplug held for
    /// writing.
    /// Errors: as for [`Builder::register`](crate::Builder::register).
    pub fn before_cpus(name: &CStr, prepare: fn(CpuId) -> Result) -> Result<Self, Error> {
        let call = move |_call: &Call<'_, _, _>, (cpu,)| {
            let prepared = CpuId::new(cpu).ok_or(EINVAL).and_then(prepare);
            prepared.map_or_else(|e| Answer::Return(e.to_errno()), |()| Answer::Continue)
        };
        // The module of `prepare` must outlive the exit, even if another module calls this
        // function.
        let origin = (prepare as *const ()).addr();
        Self::builder(name).pinned().register_from(call, origin)
    }
}
