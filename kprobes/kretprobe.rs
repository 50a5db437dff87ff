// SPDX-License-Identifier: GPL-2.0

//! Probes on the return of functions.
//!
//! The handler of the probe at the entry has the function return to a trampoline, with an instance of a pool that was
//! filled when it was registered (`rust/sys/kretprobe.rs`). A call that finds the pool empty is counted in `nmissed`.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use ferro_sys::kretprobe;
use ferro_sys::kretprobe::Kretprobe;
use kernel::prelude::*;

use crate::address;
use crate::error::Error;
use crate::raw;
use crate::register;
use crate::registry;

/// Registers kretprobes, all or none.
pub(crate) fn register(kretprobes: &[Kretprobe]) -> Result {
    let mut probes = KVVec::with_capacity(kretprobes.len(), GFP_KERNEL)?;
    for (i, kretprobe) in kretprobes.iter().enumerate() {
        let is_repeated = kretprobes.iter().take(i).any(|other| other == kretprobe);
        let prepared = match is_repeated {
            true => Err(Error::Registered),
            false => prepare(*kretprobe),
        };
        let prepared = prepared.inspect_err(|e| register::report(kretprobe.probe(), *e));
        // There is room for all.
        let pushed = prepared.map(|()| probes.push_within_capacity(kretprobe.probe()));
        if let Err(error) = pushed {
            give_up(kretprobes, probes.len());
            return Err(error.errno());
        }
    }
    register::register(&probes).inspect_err(|_| give_up(kretprobes, probes.len()))
}

/// Undoes [`prepare`] for the first ones.
fn give_up(kretprobes: &[Kretprobe], count: usize) {
    for kretprobe in kretprobes.iter().take(count) {
        kretprobe.free();
    }
}

/// Checks a kretprobe, and fills its pool.
fn prepare(kretprobe: Kretprobe) -> Result<(), Error> {
    let probe = kretprobe.probe();
    if registry::is_registered(probe) {
        return Err(Error::Registered);
    }
    let place = address::resolve(probe.address(), probe.symbol(), probe.offset())?;
    if !place.at_entry {
        return Err(Error::NotAtEntry);
    }
    if kretprobe::returns_elsewhere(place.function) {
        return Err(Error::NeverReturns);
    }
    kretprobe.alloc().map_err(|e| match e {
        E2BIG => Error::TooMuchData,
        _ => Error::NoMemory,
    })?;
    raw::kretprobe::set_entry_handler(kretprobe);
    Ok(())
}

/// Unregisters kretprobes. When this returns nobody is in their handlers, whatever is still inside their functions.
pub(crate) fn unregister(kretprobes: impl Iterator<Item = Kretprobe> + Clone) {
    let entries = kretprobes.clone().map(Kretprobe::probe);
    registry::unregister_with(entries, || kretprobes.for_each(Kretprobe::free));
}
