// SPDX-License-Identifier: GPL-2.0

//! Registry of open channels, for closing them and for CPUs that are brought up later.
//!
//! Contexts: process. Locks, outermost first: CPU hotplug, the registry's mutex, a channel's files.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::hook::is_going;
use ferro_sys::hook::Module;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::channel_state::ChannelState;

/// The open channels. C defines the mutex: channels may be opened before Rust could initialise one.
static CHANNELS: StaticMutex<KVec<ARef<Shared<ChannelState>>>> =
    static_mutex!(relay_fast_mutex, KVec::new());

/// Opens a channel: makes the buffers of the CPUs and the files.
///
/// Errors: -ENOMEM, -EINTR if the task is being killed, -ESHUTDOWN if the client's module is being
/// unloaded, and errors of debugfs; then all changes are undone.
pub(crate) fn open(state: &ARef<Shared<ChannelState>>) -> Result {
    let opened = try_open(state);
    if opened.is_err() {
        // Without the locks: the removal of a file waits for its readers. Closing a buffer wakes
        // readers that have already opened its file.
        state.close();
    }
    opened
}

fn try_open(state: &ARef<Shared<ChannelState>>) -> Result {
    loop {
        // Holds no lock that other tasks need: allocating gigabytes of buffers takes long.
        cpus_in_need().try_for_each(|cpu| state.add_buffer(cpu))?;
        match state.make_files() {
            // Debugfs is not ready yet; the files are made later.
            Err(e) if e == ENOENT && cpu::booting() => {}
            other => other?,
        }
        // Waits for a CPU that is being brought up: it was prepared before, and is not online yet.
        let _hotplug = HotplugOff::new();
        let mut channels = CHANNELS.lock();
        if is_going(state.client()) {
            return Err(ESHUTDOWN);
        }
        if cpus_in_need().all(|cpu| state.buffer(cpu).is_some()) {
            return Ok(channels.push(state.clone(), GFP_KERNEL)?);
        }
        // A CPU was brought up since.
    }
}

/// Returns the CPUs that need a buffer now: the online ones. During boot all possible CPUs do, as
/// their bring-up is not reported then.
fn cpus_in_need() -> impl Iterator<Item = CpuId> {
    let booting = cpu::booting();
    Iterator::chain(
        cpu::possible().filter(move |_| booting),
        cpu::online().filter(move |_| !booting),
    )
}

/// Closes the channel at this address. Open files and mappings keep their buffers.
///
/// Errors: -ENOENT if the channel is not open.
pub(crate) fn close(address: *const ChannelState) -> Result {
    take(|state| core::ptr::eq::<ChannelState>(state, address))
        .map(|state| state.close())
        .ok_or(ENOENT)
}

/// Closes the channels that a module has left open when it is unloaded.
pub(crate) fn close_for_module(module: &Module) {
    while let Some(state) = take(|state| state.is_of(module)) {
        pr_notice!("an unloaded module has left a channel\n");
        state.close();
    }
}

/// Removes a channel from the registry and returns it.
fn take(is_it: impl Fn(&ChannelState) -> bool) -> Option<ARef<Shared<ChannelState>>> {
    let mut channels = CHANNELS.lock();
    let index = channels.iter().position(|state| is_it(state))?;
    let state = channels.remove(index).ok()?;
    if channels.is_empty() {
        // Statics are not dropped when the module is unloaded.
        *channels = KVec::new();
    }
    Some(state)
}

/// Makes the buffers of a CPU about to be brought up.
///
/// Errors: -ENOMEM. A file that cannot be made is only reported: the CPU's records are kept.
pub(crate) fn prepare_cpu(cpu: CpuId) -> Result {
    let channels = CHANNELS.lock();
    for state in channels.iter() {
        state.add_buffer(cpu)?;
        if let Err(e) = state.make_files() {
            pr_err!("no file for cpu {}: {:?}\n", cpu.get(), e);
        }
    }
    Ok(())
}

/// Makes the files of channels that were opened before debugfs was ready.
pub(crate) fn make_late_files() {
    let channels = CHANNELS.lock();
    for state in channels.iter() {
        if let Err(e) = state.make_files() {
            pr_err!("no files for a channel of the boot: {:?}\n", e);
        }
    }
}
