// SPDX-License-Identifier: GPL-2.0

//! C functions of `<linux/relay.h>`.
//!
//! Contexts: as in the C engine. `relay_switch_subbuf()` runs in the client's writing context.
//! `relay_buf_full()`, `relay_stats()`, `relay_subbufs_consumed()` and `relay_try_write()` of
//! `<linux/ferrotrace_relay.h>` may run in any context. A global channel may be flushed in any
//! context except NMI. The rest runs in process context.

use core::ptr::NonNull;

use ferro_core::relay::Geometry;
use ferro_sys::bindings;
use ferro_sys::cpu;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::fops::FileTable;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;

use crate::buf::Buf;
use crate::channel::Channel;
use crate::channel::OpenRequest;
use crate::raw::client::Client;
use crate::registry;
use crate::RelayEngine;

/// File operations for the files of clients.
// INVARIANT: Clients give their files the buffer as data, as the header requires, and remove them
// before the buffer is freed.
#[no_mangle]
static relay_file_operations: FileTable<Buf> = FileTable::new(this_module::<RelayEngine>());

/// Converts a client's channel pointer.
///
/// # Safety
///
/// `chan` is NULL or was returned by `relay_open()` and not closed since.
unsafe fn channel<'a>(chan: *mut bindings::rchan) -> Option<&'a Channel> {
    // SAFETY: The caller guarantees that the pointer was returned by `relay_open()`, which returns
    // the `rchan` that our `Channel` starts with, and that the channel is not closed, so it stays.
    unsafe { chan.cast::<Channel>().as_ref() }
}

/// Returns the buffer of a CPU.
///
/// # Safety
///
/// The channel is open, which keeps the buffers in its slots.
unsafe fn buf_of(channel: &Channel, cpu: CpuId) -> Option<&Buf> {
    // SAFETY: `Channel::publish()` puts only pointers to a `CBuf` into the slots, which only `Buf`
    // is. The caller guarantees that the channel is open: then the registry holds a reference to
    // each of its buffers.
    unsafe {
        channel
            .abi
            .buf
            .slot(cpu)
            .load(Acquire)
            .cast::<Buf>()
            .as_ref()
    }
}

/// Opens a channel; returns NULL on failure.
///
/// # Safety
///
/// `cb` is NULL or callbacks that stay valid until the channel is closed; `base_filename` is NULL
/// or a string; `parent` is NULL or a directory.
#[no_mangle]
unsafe extern "C" fn relay_open(
    base_filename: *const c_char,
    parent: *mut bindings::dentry,
    subbuf_size: usize,
    n_subbufs: usize,
    cb: *const bindings::rchan_callbacks,
    private_data: *mut c_void,
) -> *mut bindings::rchan {
    let Ok(geometry) = Geometry::new(subbuf_size, n_subbufs) else {
        return core::ptr::null_mut();
    };
    // SAFETY: The caller guarantees that it is NULL or callbacks that outlive the channel.
    let Some(client) = (unsafe { Client::new(cb) }) else {
        return core::ptr::null_mut();
    };
    let base_filename = NonNull::new(base_filename.cast_mut())
        // SAFETY: The caller guarantees that a pointer other than NULL is a string; it is used
        // during this call only.
        .map(|name| unsafe { CStr::from_char_ptr(name.as_ptr()) });
    let request = OpenRequest {
        base_filename,
        parent,
        geometry,
        client,
        callbacks: cb,
        private_data,
    };
    registry::open(request).map_or(core::ptr::null_mut(), |channel| channel.cast_mut().cast())
}

/// Makes the files of a channel that was opened without a name.
///
/// # Safety
///
/// `chan` is NULL or open, and is not closed during this call; `base_filename` is NULL or a string;
/// `parent` is NULL or a directory.
#[no_mangle]
unsafe extern "C" fn relay_late_setup_files(
    chan: *mut bindings::rchan,
    base_filename: *const c_char,
    parent: *mut bindings::dentry,
) -> c_int {
    if chan.is_null() || base_filename.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: The caller guarantees that a pointer other than NULL is a string; it is used during
    // this call only.
    let name = unsafe { CStr::from_char_ptr(base_filename) };
    registry::late_setup(chan.cast(), name, parent).map_or_else(|e| e.to_errno(), |()| 0)
}

/// Closes a channel.
///
/// # Safety
///
/// `chan` is NULL or not used afterwards.
#[no_mangle]
unsafe extern "C" fn relay_close(chan: *mut bindings::rchan) {
    if !chan.is_null() && registry::close(chan.cast()).is_err() {
        pr_warn!("relay_close() of a channel that is not open\n");
    }
}

/// Ends the current sub-buffer of each CPU.
///
/// # Safety
///
/// `chan` is NULL or open, and is not closed during this call.
#[no_mangle]
unsafe extern "C" fn relay_flush(chan: *mut bindings::rchan) {
    // SAFETY: The caller guarantees that `chan` is NULL, or stays open during this call.
    let Some(channel) = (unsafe { channel(chan) }) else {
        return;
    };
    if !channel.is_global() {
        let _ = registry::flush(channel);
        return;
    }
    // SAFETY: The caller guarantees that the channel stays open during this call.
    if let Some(buf) = unsafe { buf_of(channel, CpuId::ZERO) } {
        buf.flush();
    }
}

/// Empties all buffers.
///
/// # Safety
///
/// `chan` is NULL or open, and is not written to during this call.
#[no_mangle]
unsafe extern "C" fn relay_reset(chan: *mut bindings::rchan) {
    if !chan.is_null() {
        let _ = registry::reset(chan.cast());
    }
}

/// Moves to the next sub-buffer; the slow path of writing. Returns 0 if the record cannot be
/// written.
///
/// # Safety
///
/// `buf` is the buffer of this CPU, of an open channel, and has no other writer at this time.
#[no_mangle]
unsafe extern "C" fn relay_switch_subbuf(buf: *mut bindings::rchan_buf, length: usize) -> usize {
    // SAFETY: The caller guarantees that `buf` is of an open channel, thus the `rchan_buf`
    // that one of our `Buf` starts with, and that it has no other writer.
    unsafe { &*buf.cast::<Buf>() }.try_switch(length)
}

/// Returns 1 if no sub-buffer is free, else 0.
///
/// # Safety
///
/// `buf` is a buffer of an open channel.
#[no_mangle]
unsafe extern "C" fn relay_buf_full(buf: *mut bindings::rchan_buf) -> c_int {
    // SAFETY: The caller guarantees that `buf` is of an open channel, thus the `rchan_buf`
    // that one of our `Buf` starts with.
    unsafe { &*buf.cast::<Buf>() }.is_full().into()
}

/// Records that user space has read `consumed` more sub-buffers of `cpu`.
///
/// # Safety
///
/// `chan` is NULL or open, and is not closed during this call.
#[no_mangle]
unsafe extern "C" fn relay_subbufs_consumed(chan: *mut bindings::rchan, cpu: u32, consumed: usize) {
    // SAFETY: The caller guarantees that `chan` is NULL, or stays open during this call.
    let Some((channel, cpu)) = (unsafe { channel(chan) }).zip(CpuId::new(cpu)) else {
        return;
    };
    // SAFETY: The caller guarantees that the channel stays open during this call.
    if let Some(buf) = unsafe { buf_of(channel, cpu) } {
        buf.consume(consumed);
    }
}

/// Returns a counter, summed over all CPUs.
///
/// # Safety
///
/// `chan` is NULL or open, and is not closed during this call.
#[no_mangle]
unsafe extern "C" fn relay_stats(chan: *mut bindings::rchan, flags: c_int) -> usize {
    let is_set = |flag: u32| c_int::try_from(flag).is_ok_and(|flag| flags & flag != 0);
    let known = c_int::try_from(bindings::RELAY_STATS_LAST).is_ok_and(|last| flags <= last);
    let count: fn(&Buf) -> u64 = if known && is_set(bindings::RELAY_STATS_BUF_FULL) {
        Buf::full_count
    } else if known && is_set(bindings::RELAY_STATS_WRT_BIG) {
        Buf::big_count
    } else {
        return 0;
    };
    // SAFETY: The caller guarantees that `chan` is NULL, or stays open during this call.
    let Some(channel) = (unsafe { channel(chan) }) else {
        return 0;
    };
    // SAFETY: The caller guarantees that the channel stays open during this call.
    usize::try_from(unsafe { sum(channel, count) }).unwrap_or(usize::MAX)
}

/// Sums a counter over the buffers of a channel.
///
/// # Safety
///
/// The channel is open, and is not closed during this call.
unsafe fn sum(channel: &Channel, count: impl Fn(&Buf) -> u64) -> u64 {
    let cpus = cpu::possible().take(if channel.is_global() { 1 } else { usize::MAX });
    // SAFETY: The caller guarantees that the channel stays open during this call.
    let counts = cpus.filter_map(|cpu| unsafe { buf_of(channel, cpu) }.map(&count));
    counts.fold(0, u64::wrapping_add)
}

/// Writes a record to the buffer of this CPU, or to the global buffer.
///
/// # Safety
///
/// `chan` is NULL or open, and is not closed during this call; `length` bytes at `data` are
/// readable if they fit in a sub-buffer.
#[no_mangle]
unsafe extern "C" fn relay_try_write(
    chan: *mut bindings::rchan,
    data: *const c_void,
    length: usize,
) -> bool {
    // SAFETY: The caller guarantees that `chan` is NULL, or stays open during this call.
    let Some(channel) = (unsafe { channel(chan) }) else {
        return false;
    };
    with_irqs_off(|irqs| {
        let Some(cpu) = CpuId::new(cpu::current_id()) else {
            return false;
        };
        // SAFETY: The caller guarantees that the channel stays open during this call.
        let Some(buf) = (unsafe { buf_of(channel, cpu) }) else {
            return false;
        };
        // SAFETY: `try_write()` calls this only if the record fits in a sub-buffer, in which case
        // the caller guarantees that `data` is readable; `at` is a place of `length` bytes that no
        // other writer gets.
        buf.try_write(irqs, length, |at| unsafe {
            buf.memory().copy_in(at, data.cast(), length)
        })
    })
}

/// Returns the number of records that [`relay_try_write`] has lost.
///
/// # Safety
///
/// `chan` is NULL or open, and is not closed during this call.
#[no_mangle]
unsafe extern "C" fn relay_try_write_lost(chan: *mut bindings::rchan) -> u64 {
    // SAFETY: The caller guarantees that `chan` is NULL, or stays open during this call.
    unsafe { channel(chan).map_or(0, |channel| sum(channel, Buf::lost)) }
}

/// Makes the buffers of a CPU about to be brought up.
///
/// # Safety
///
/// Called by the CPU hotplug state machine.
#[cfg(not(MODULE))]
#[no_mangle]
unsafe extern "C" fn relay_prepare_cpu(cpu: u32) -> c_int {
    let prepared = CpuId::new(cpu)
        .ok_or(EINVAL)
        .and_then(registry::prepare_cpu);
    prepared.map_or_else(|e| e.to_errno(), |()| 0)
}

ferro_sys::declared_in_c!(
    relay_open,
    relay_late_setup_files,
    relay_close,
    relay_flush,
    relay_reset,
    relay_switch_subbuf,
    relay_buf_full,
    relay_subbufs_consumed,
    relay_stats,
    relay_try_write,
    relay_try_write_lost,
);
#[cfg(not(MODULE))]
ferro_sys::declared_in_c!(relay_prepare_cpu);
