// SPDX-License-Identifier: GPL-2.0

//! The channels that are open, for closing them and for CPUs that come up later.
//!
//! Contexts: process. Locks, outermost first: CPU hotplug, the registry's mutex, a channel's files.
#![deny(unsafe_code)]

use ferro_sys::counted::Shared;
use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::HotplugOff;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::channel::Inner;
use crate::ffi::registry;

/// Opens a channel: makes the buffers of the CPUs and the files.
///
/// Errors: -ENOMEM and those of debugfs; whatever had been made has been undone then.
pub(crate) fn open(inner: ARef<Shared<Inner>>) -> Result {
    // A CPU on its way up is neither online yet nor prepared again, so hold it off.
    let _hotplug = HotplugOff::new();
    let mut channels = registry();
    channels.reserve(1, GFP_KERNEL)?;
    // Nobody tells us of the CPUs that come up first.
    let made = match cpu::booting() {
        true => cpu::possible().try_for_each(|cpu| inner.add_buffer(cpu)),
        false => cpu::online().try_for_each(|cpu| inner.add_buffer(cpu)),
    };
    let result = made.and_then(|()| match inner.make_files() {
        // debugfs comes later.
        Err(e) if e == ENOENT && cpu::booting() => Ok(()),
        other => other,
    });
    if result.is_err() {
        inner.remove_files();
        return result;
    }
    channels.push(inner, GFP_KERNEL)?;
    Ok(())
}

/// Closes the channel that is at this address. What its files and mappings still need stays.
///
/// Errors: -ENOENT if there is none.
pub(crate) fn close(address: *const Inner) -> Result {
    let mut channels = registry();
    let index = channels
        .iter()
        .position(|inner| core::ptr::eq::<Inner>(&***inner, address))
        .ok_or(ENOENT)?;
    let inner = channels.remove(index).map_err(|_| ENOENT)?;
    if channels.is_empty() {
        // Nobody frees a static when the module goes.
        *channels = KVec::new();
    }
    drop(channels);
    inner.close();
    Ok(())
}

/// Makes the buffers of a CPU that is about to come up.
///
/// Errors: -ENOMEM. A file that cannot be made is only reported: the CPU's records are kept.
pub(crate) fn prepare_cpu(cpu: CpuId) -> Result {
    let channels = registry();
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
    let channels = registry();
    for inner in channels.iter() {
        if let Err(e) = inner.make_files() {
            pr_err!("no files for a channel of the boot: {:?}\n", e);
        }
    }
}
