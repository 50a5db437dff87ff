// SPDX-License-Identifier: GPL-2.0

//! Probes on the return of functions.
//!
//! The handler at the function's entry replaces the return address by a trampoline's. It takes an
//! instance from a pool that registration has filled (`builtin/raw/kretprobe.rs`). A call that
//! finds the pool empty is counted in `nmissed`.
//!
//! Contexts: process, sleeps.
#![deny(unsafe_code)]

use ferro_kprobes_builtin::raw::kretprobe;
use ferro_kprobes_builtin::raw::kretprobe::Kretprobe;
use kernel::prelude::*;

use crate::error::Error;
use crate::probe_address;
use crate::raw::grace_period::GracePeriod;
use crate::raw::kretprobe::probe_of;
use crate::raw::kretprobe::set_entry_handler;
use crate::registration;
use crate::registry;

/// Registers kretprobes, all or none.
pub(crate) fn register(kretprobes: &[Kretprobe<'_>]) -> Result {
    let mut probes = KVVec::with_capacity(kretprobes.len(), GFP_KERNEL)?;
    for (i, kretprobe) in kretprobes.iter().enumerate() {
        let is_repeated = kretprobes.iter().take(i).any(|other| other == kretprobe);
        let prepared = match is_repeated {
            true => Err(Error::Registered),
            false => prepare(*kretprobe),
        };
        let prepared = prepared.inspect_err(|e| registration::report(probe_of(*kretprobe), *e));
        // `with_capacity()` has reserved the room.
        let pushed = prepared.map(|()| probes.push_within_capacity(probe_of(*kretprobe)));
        if let Err(error) = pushed {
            give_up(kretprobes, probes.len());
            return Err(error.errno());
        }
    }
    registration::register(&probes).inspect_err(|_| {
        give_up(kretprobes, probes.len());
        // Some may have been hit already. Calls that return from here on do not look up their
        // handlers.
        GracePeriod::wait();
    })
}

/// Undoes [`prepare`] for the first `count` kretprobes.
fn give_up(kretprobes: &[Kretprobe<'_>], count: usize) {
    for kretprobe in kretprobes.iter().take(count) {
        kretprobe.free();
    }
}

/// Checks a kretprobe, and fills its pool.
fn prepare(kretprobe: Kretprobe<'_>) -> Result<(), Error> {
    let probe = probe_of(kretprobe);
    if registry::is_registered(probe) {
        return Err(Error::Registered);
    }
    let location = probe_address::resolve(probe.address(), probe.symbol(), probe.offset())?;
    if !location.at_entry {
        return Err(Error::NotAtEntry);
    }
    if kretprobe::returns_elsewhere(location.function) {
        return Err(Error::NeverReturns);
    }
    kretprobe.alloc().map_err(|e| match e {
        E2BIG => Error::TooMuchData,
        _ => Error::NoMemory,
    })?;
    set_entry_handler(kretprobe);
    Ok(())
}

/// Unregisters kretprobes. No handler of theirs is running when this returns, even if calls of
/// their functions have yet to return.
pub(crate) fn unregister<'a>(kretprobes: impl Iterator<Item = Kretprobe<'a>> + Clone) {
    let entries = kretprobes.clone().map(probe_of);
    registry::unregister_with(entries, || kretprobes.for_each(Kretprobe::free));
}
