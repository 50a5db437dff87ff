// SPDX-License-Identifier: GPL-2.0

//! Where C comes in: the functions of `<linux/relay.h>`, and the operations of a buffer's file.
//!
//! Contexts: those that the header's functions have in the C engine. `relay_switch_subbuf()` runs
//! wherever the client writes; `relay_buf_full()`, `relay_stats()` and `relay_subbufs_consumed()`
//! anywhere, as may `relay_try_write()` of `<linux/ferrotrace_relay.h>`; the rest in process context, except
//! that flushing a global channel may be done anywhere but in an NMI.

use core::ptr::NonNull;

use ferro_core::relay::Geometry;
use ferro_sys::cpu;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::fops::FileOps;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::MmapRequest;
use ferro_sys::fs::splice::PipeDst;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::impl_always_refcounted;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::mm::pages::PageRef;
use ferro_sys::sync::refcounted::Counted;
use ferro_sys::sync::wait::WaitQueue;
use kernel::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::Refcount;

use crate::buf::Buf;
use crate::channel::Channel;
use crate::channel::OpenRequest;
use crate::raw::client::CBuf;
use crate::raw::client::Client;
use crate::registry;
use crate::RelayEngine;

// SAFETY: The count is that of the structure that C sees, which C code does not lower. `Channel::new()`, which the private fields
// make the only maker, has instances in a box with a count of 1.
unsafe impl Counted for Channel {
    fn count(&self) -> &Refcount {
        &self.abi.kref
    }
}
impl_always_refcounted!(Channel);

// SAFETY: The count is that of the structure that C sees, which C code does not lower. `Buf::new()`, which the private fields
// make the only maker, has instances in a pinned box with a count of 1.
unsafe impl Counted for Buf {
    fn count(&self) -> &Refcount {
        &self.abi.kref
    }
}
impl_always_refcounted!(Buf);

#[pinned_drop]
impl PinnedDrop for Buf {
    fn drop(self: Pin<&mut Self>) {
        self.on_last_put();
    }
}

// SAFETY: `Buf` is `repr(C)` and starts with the structure, whose layout `abi.rs` compares with the header's.
unsafe impl CBuf for Buf {
    fn as_raw(&self) -> *mut bindings::rchan_buf {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

// SAFETY: Clients give their files the buffer as data, as the header has it, and remove them before the buffer is freed.
unsafe impl FileOps for Buf {
    const MAPPABLE: bool = true;
    const SPLICEABLE: bool = true;

    fn read(&self, to: &mut UserDst) -> Result {
        self.read_to(to)
    }

    fn memory(&self) -> Option<&PageBuf> {
        Some(Buf::memory(self))
    }

    fn splice(&self, to: &mut PipeDst<'_>) -> Result {
        self.splice_to(to)
    }

    fn give_back(&self, token: usize) {
        self.returned(token);
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.abi.read_wait)
    }

    fn events(&self) -> u32 {
        self.poll_events()
    }

    fn mmap(&self, request: &MmapRequest) -> Result {
        self.check_mmap(request)
    }

    fn page(&self, index: usize) -> Option<PageRef> {
        self.page_at(index)
    }
}

/// The file operations that clients give their files.
#[no_mangle]
static relay_file_operations: FileTable<Buf> = FileTable::new(this_module::<RelayEngine>());

/// The channel that a client passed.
///
/// # Safety
///
/// `chan` is NULL or was returned by `relay_open()` and not closed since.
unsafe fn channel<'a>(chan: *mut bindings::rchan) -> Option<&'a Channel> {
    // SAFETY: The caller guarantees that it came from `relay_open()`, which hands out the `rchan` that our `Channel` starts with,
    // and that nobody closes it, so it stays.
    unsafe { chan.cast::<Channel>().as_ref() }
}

/// The buffer that a CPU writes.
///
/// # Safety
///
/// The channel is open, which keeps the buffers in its slots.
unsafe fn buf_of(channel: &Channel, cpu: CpuId) -> Option<&Buf> {
    // SAFETY: `Channel::publish()` puts only buffers into the slots, whose pointers are those of a `Buf`; the caller guarantees
    // that the channel is open, and an open channel holds a count of each.
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

/// Opens a channel; NULL if that fails.
///
/// # Safety
///
/// `cb` is NULL or callbacks that stay valid until the channel is closed; `base_filename` is NULL or a
/// string; `parent` is NULL or a directory.
#[export]
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
        // SAFETY: The caller guarantees that what is not NULL is a string; it is used during this call only.
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

/// Gives files to a channel that was opened without a name.
///
/// # Safety
///
/// `chan` is NULL or open, and nobody closes it meanwhile; `base_filename` is NULL or a string; `parent` is
/// NULL or a directory.
#[export]
unsafe extern "C" fn relay_late_setup_files(
    chan: *mut bindings::rchan,
    base_filename: *const c_char,
    parent: *mut bindings::dentry,
) -> c_int {
    if chan.is_null() || base_filename.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: The caller guarantees that what is not NULL is a string; it is used during this call only.
    let name = unsafe { CStr::from_char_ptr(base_filename) };
    registry::late_setup(chan.cast(), name, parent).map_or_else(|e| e.to_errno(), |()| 0)
}

/// Closes a channel.
///
/// # Safety
///
/// `chan` is NULL or not used afterwards.
#[export]
unsafe extern "C" fn relay_close(chan: *mut bindings::rchan) {
    if !chan.is_null() && registry::close(chan.cast()).is_err() {
        pr_warn!("relay_close() of a channel that is not open\n");
    }
}

/// Ends the current sub-buffer of every CPU.
///
/// # Safety
///
/// `chan` is NULL or open; nobody closes it meanwhile.
#[export]
unsafe extern "C" fn relay_flush(chan: *mut bindings::rchan) {
    // SAFETY: The caller guarantees that it is NULL or an open channel that nobody closes during this call.
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
/// `chan` is NULL or open; nobody writes it meanwhile.
#[export]
unsafe extern "C" fn relay_reset(chan: *mut bindings::rchan) {
    if !chan.is_null() {
        let _ = registry::reset(chan.cast());
    }
}

/// Moves to the next sub-buffer; the slow path of writing. 0 if the record cannot be written.
///
/// # Safety
///
/// `buf` is the buffer of this CPU, of an open channel, and nobody else writes it.
#[export]
unsafe extern "C" fn relay_switch_subbuf(buf: *mut bindings::rchan_buf, length: usize) -> usize {
    // SAFETY: The caller guarantees that it is a buffer of an open channel, thus the `rchan_buf` that one of our `Buf` starts
    // with, and that nobody else writes to it.
    unsafe { &*buf.cast::<Buf>() }.try_switch(length)
}

/// Whether no sub-buffer is free.
///
/// # Safety
///
/// `buf` is a buffer of an open channel.
#[export]
unsafe extern "C" fn relay_buf_full(buf: *mut bindings::rchan_buf) -> c_int {
    // SAFETY: The caller guarantees that it is a buffer of an open channel, thus the `rchan_buf` that one of our `Buf` starts with.
    unsafe { &*buf.cast::<Buf>() }.is_full().into()
}

/// User space has read `consumed` more sub-buffers of `cpu`.
///
/// # Safety
///
/// `chan` is NULL or open; nobody closes it meanwhile.
#[export]
unsafe extern "C" fn relay_subbufs_consumed(chan: *mut bindings::rchan, cpu: u32, consumed: usize) {
    // SAFETY: The caller guarantees that it is NULL or an open channel that nobody closes during this call.
    let Some((channel, cpu)) = (unsafe { channel(chan) }).zip(CpuId::new(cpu)) else {
        return;
    };
    // SAFETY: The caller guarantees that the channel stays open during this call.
    if let Some(buf) = unsafe { buf_of(channel, cpu) } {
        buf.consume(consumed);
    }
}

/// A count over all CPUs.
///
/// # Safety
///
/// `chan` is NULL or open; nobody closes it meanwhile.
#[export]
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
    // SAFETY: The caller guarantees that it is NULL or an open channel that nobody closes during this call.
    let Some(channel) = (unsafe { channel(chan) }) else {
        return 0;
    };
    // SAFETY: The caller guarantees that the channel stays open during this call.
    usize::try_from(unsafe { sum(channel, count) }).unwrap_or(usize::MAX)
}

/// Adds up something over the buffers of a channel.
///
/// # Safety
///
/// The channel is open, and nobody closes it meanwhile.
unsafe fn sum(channel: &Channel, count: impl Fn(&Buf) -> u64) -> u64 {
    let cpus = cpu::possible().take(if channel.is_global() { 1 } else { usize::MAX });
    // SAFETY: The caller guarantees that the channel stays open during this call.
    let counts = cpus.filter_map(|cpu| unsafe { buf_of(channel, cpu) }.map(&count));
    counts.fold(0, u64::wrapping_add)
}

/// Writes a record to the buffer of this CPU, or to the only one.
///
/// # Safety
///
/// `chan` is NULL or open, and nobody closes it meanwhile; `length` bytes at `data` are readable if
/// they fit in a sub-buffer.
#[export]
unsafe extern "C" fn relay_try_write(
    chan: *mut bindings::rchan,
    data: *const c_void,
    length: usize,
) -> bool {
    // SAFETY: The caller guarantees that it is NULL or an open channel that nobody closes during this call.
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
        // SAFETY: `try_write()` calls this only if the record fits in a sub-buffer, in which case the caller guarantees that `data`
        // is readable; `at` is a place of `length` bytes that no other writer gets.
        buf.try_write(irqs, length, |at| unsafe {
            buf.memory().copy_in(at, data.cast(), length)
        })
    })
}

/// How many records [`relay_try_write`] has not written.
///
/// # Safety
///
/// `chan` is NULL or open; nobody closes it meanwhile.
#[export]
unsafe extern "C" fn relay_try_write_lost(chan: *mut bindings::rchan) -> u64 {
    // SAFETY: The caller guarantees that it is NULL or an open channel that nobody closes during this call.
    unsafe { channel(chan).map_or(0, |channel| sum(channel, Buf::lost)) }
}

/// Makes the buffers of a CPU that comes up.
///
/// # Safety
///
/// Called by the kernel's table of CPU states.
#[cfg(not(MODULE))]
#[export]
unsafe extern "C" fn relay_prepare_cpu(cpu: u32) -> c_int {
    let prepared = CpuId::new(cpu)
        .ok_or(EINVAL)
        .and_then(registry::prepare_cpu);
    prepared.map_or_else(|e| e.to_errno(), |()| 0)
}
