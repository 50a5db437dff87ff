// SPDX-License-Identifier: GPL-2.0

//! What has to be done before a CPU comes up.
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
    /// Has `prepare` called before a CPU comes up; an error keeps it down. It is pinned and armed, and not called for
    /// CPUs that are up already.
    ///
    /// Context: process; sleeps. `prepare` is called in process context with CPU hotplug held for writing.
    /// Errors: as for [`Builder::register`](crate::Builder::register).
    pub fn before_cpus(name: &CStr, prepare: fn(CpuId) -> Result) -> Result<Self, Error> {
        let call = move |_call: &Call<'_, _, _>, (cpu,)| {
            let prepared = CpuId::new(cpu).ok_or(EINVAL).and_then(prepare);
            prepared.map_or_else(|e| Answer::Return(e.to_errno()), |()| Answer::Continue)
        };
        // It is the module of `prepare` that must not go first, whoever called this for it.
        let origin = (prepare as *const ()).addr();
        Self::builder(name).pinned().register_from(call, origin)
    }
}
