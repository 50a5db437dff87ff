// SPDX-License-Identifier: GPL-2.0

//! Registering for clients: the log says what refused a probe, and the client gets it back as it was.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use crate::raw::kprobe::warn_registered_twice;
use crate::raw::kprobe::FaultHandler;
use crate::raw::kprobe::Kprobe;
use ferro_sys::code::symbols::Shown;
use kernel::prelude::*;

use crate::error::Error;
use crate::registry;

/// Registers probes, all or none, and says in the log what refused one.
pub(crate) fn register(probes: &[Kprobe<'_>]) -> Result {
    register_with_fault(probes, None)
}

/// The same, with a handler for faults.
pub(crate) fn register_with_fault(probes: &[Kprobe<'_>], fault: FaultHandler) -> Result {
    let mut addresses = KVVec::with_capacity(probes.len(), GFP_KERNEL)?;
    for probe in probes {
        addresses.push((probe.address(), probe.flags()), GFP_KERNEL)?;
    }
    registry::register(probes, fault).map_err(|(at, error)| {
        if let Some(probe) = probes.get(at) {
            report(*probe, error);
        }
        // As they were, so that a client can try again.
        let given = probes.iter().zip(&addresses);
        for (probe, (address, flags)) in
            given.filter(|(probe, _)| !registry::is_registered(**probe))
        {
            probe.set_address(*address);
            probe.set_flags(*flags);
        }
        error.errno()
    })
}

/// Says in the log what refused a probe.
pub(crate) fn report(probe: Kprobe<'_>, error: Error) {
    if !error.is_refusal() {
        return;
    }
    if error == Error::Registered {
        warn_registered_twice();
    }
    match probe.symbol() {
        Some(name) => pr_info!("no probe at {}+{:#x}: {}\n", name, probe.offset(), error),
        None => pr_info!(
            "no probe at {}: {}\n",
            Shown(probe.address().wrapping_add(probe.offset())),
            error
        ),
    }
}
