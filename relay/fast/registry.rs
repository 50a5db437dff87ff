// SPDX-License-Identifier: GPL-2.0

//! The channels that are open, for closing them and for CPUs that come up later.
//!
//! Contexts: process. Locks, outermost first: CPU hotplug, the registry's mutex, a channel's files.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::channel_state::Inner;
use crate::raw::mutex::EarlyMutex;

/// The channels that are open.
static CHANNELS: EarlyMutex<KVec<ARef<Shared<Inner>>>> = EarlyMutex::of_registry(KVec::new());

/// Opens a channel: makes the buffers of the CPUs and the files.
///
/// Errors: -ENOMEM, -EINTR if the task is being killed, -ESHUTDOWN if the client's module is being
/// unloaded, and those of debugfs; whatever had been made has been undone then.
pub(crate) fn open(inner: &ARef<Shared<Inner>>) -> Result {
    let opened = try_open(inner);
    if opened.is_err() {
        // Without the locks: removing a file waits for whoever reads it. Who has opened one is told that nothing comes any more.
        inner.close();
    }
    opened
}

fn try_open(inner: &ARef<Shared<Inner>>) -> Result {
    loop {
        // Buffers may have gigabytes: without a lock that others need.
        wanted().try_for_each(|cpu| inner.add_buffer(cpu))?;
        match inner.make_files() {
            // debugfs comes later.
            Err(e) if e == ENOENT && cpu::booting() => {}
            other => other?,
        }
        // A CPU on its way up is neither online yet nor prepared again, so hold it off.
        let _hotplug = HotplugOff::new();
        let mut channels = CHANNELS.lock();
        if is_going(inner.client()) {
            return Err(ESHUTDOWN);
        }
        if wanted().all(|cpu| inner.buffer(cpu).is_some()) {
            return Ok(channels.push(inner.clone(), GFP_KERNEL)?);
        }
        // One has come up since.
    }
}

/// The CPUs that need a buffer now: nobody tells us of those that come up while the kernel boots.
fn wanted() -> impl Iterator<Item = CpuId> {
    let booting = cpu::booting();
    Iterator::chain(
        cpu::possible().filter(move |_| booting),
        cpu::online().filter(move |_| !booting),
    )
}

/// Closes the channel that is at this address. What its files and mappings still need stays.
///
/// Errors: -ENOENT if there is none.
pub(crate) fn close(address: *const Inner) -> Result {
    take(|inner| core::ptr::eq::<Inner>(inner, address))
        .map(|inner| inner.close())
        .ok_or(ENOENT)
}

/// A module goes: closes what it has opened and not closed.
pub(crate) fn module_goes(module: &Module) {
    while let Some(inner) = take(|inner| inner.is_of(module)) {
        pr_notice!("a module that goes has left a channel\n");
        inner.close();
    }
}

/// Takes a channel out of the registry.
fn take(is_it: impl Fn(&Inner) -> bool) -> Option<ARef<Shared<Inner>>> {
    let mut channels = CHANNELS.lock();
    let index = channels.iter().position(|inner| is_it(inner))?;
    let inner = channels.remove(index).ok()?;
    if channels.is_empty() {
        // Nobody frees a static when the module goes.
        *channels = KVec::new();
    }
    Some(inner)
}

/// Makes the buffers of a CPU that is about to come up.
///
/// Errors: -ENOMEM. A file that cannot be made is only reported: the CPU's records are kept.
pub(crate) fn prepare_cpu(cpu: CpuId) -> Result {
    let channels = CHANNELS.lock();
    for inner in channels.iter() {
        inner.add_buffer(cpu)?;
        if let Err(e) = inner.make_files() {
            pr_err!("no file for cpu {}: {:?}\n", cpu.get(), e);
        }
    }
    Ok(())
}

/// Makes the files of channels that were opened before there was a file system for them.
pub(crate) fn make_late_files() {
    let channels = CHANNELS.lock();
    for inner in channels.iter() {
        if let Err(e) = inner.make_files() {
            pr_err!("no files for a channel of the boot: {:?}\n", e);
        }
    }
}
