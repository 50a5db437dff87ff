// SPDX-License-Identifier: GPL-2.0

//! Registration for clients: logs a refused probe for debugfs, and restores the client's structure.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use crate::raw::kprobe::warn_registered_twice;
use crate::raw::kprobe::FaultHandler;
use crate::raw::kprobe::Kprobe;
use ferro_sys::code::symbols::Shown;
use ferro_sys::fs::text_buffer::TextBuffer;
use kernel::fmt::Write;
use kernel::prelude::*;

use crate::error::Error;
use crate::registry;

/// Registers probes, all or none, and logs the one that was refused.
pub(crate) fn register(probes: &[Kprobe<'_>]) -> Result {
    register_with_fault(probes, None)
}

/// Registers probes like [`register`], with a fault handler.
pub(crate) fn register_with_fault(probes: &[Kprobe<'_>], fault: FaultHandler) -> Result {
    let mut addresses = KVVec::with_capacity(probes.len(), GFP_KERNEL)?;
    for probe in probes {
        addresses.push((probe.address(), probe.flags()), GFP_KERNEL)?;
    }
    registry::register(probes, fault).map_err(|(at, error)| {
        if let Some(probe) = probes.get(at) {
            report(*probe, error);
        }
        // Restored, so that a client can try again.
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

/// Logs a refused probe for debugfs.
pub(crate) fn report(probe: Kprobe<'_>, error: Error) {
    if !error.is_refusal() {
        return;
    }
    if error == Error::Registered {
        warn_registered_twice();
    }
    let mut line = TextBuffer::new();
    let offset = probe.offset();
    let written = match probe.symbol() {
        Some(name) => line.write_fmt(fmt!("no probe at {name}+{offset:#x}: {error}\n")),
        None => {
            let address = Shown(probe.address().wrapping_add(offset));
            line.write_fmt(fmt!("no probe at {address}: {error}\n"))
        }
    };
    // The line is lost if there is no memory.
    if written.is_ok() {
        registry::note_refused(line.into_bytes());
    }
}
