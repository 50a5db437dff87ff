// SPDX-License-Identifier: GPL-2.0

//! The structures of `<linux/relay.h>`, field for field.
//!
//! C clients and the header's inline functions read and write them without telling us, so each
//! field that changes is an atomic. Sizes and offsets are checked against the header when this is
//! compiled.
#![deny(unsafe_code)]

use core::mem::offset_of;
use core::mem::size_of;

use ferro_sys::irq_work::IrqWork;
use ferro_sys::wait::WaitQueue;
use kernel::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::Refcount;

use crate::buf::Buf;
use crate::channel::Channel;

/// `struct rchan_buf`.
#[repr(C, align(64))]
#[pin_data]
pub struct RchanBuf {
    pub start: *mut u8,
    /// Start of the current sub-buffer. Written by `Buf::switch()`, read by the inline writers.
    pub data: Atomic<*mut u8>,
    /// Bytes used of the current sub-buffer. Written by the inline writers and by the owner of the
    /// CPU in `Buf::switch()`; read by `Buf::view()`.
    pub offset: Atomic<usize>,
    /// Written by `Buf::switch()` with release; pairs with the acquire in `Buf::view()`.
    pub subbufs_produced: Atomic<usize>,
    /// Written by readers with release; pairs with the acquire in `Buf::is_full()`.
    pub subbufs_consumed: Atomic<usize>,
    pub chan: *const Channel,
    #[pin]
    pub read_wait: WaitQueue,
    #[pin]
    pub wakeup_work: IrqWork,
    pub dentry: Atomic<*mut bindings::dentry>,
    pub kref: Refcount,
    /// Lower halves of the engine's own 64-bit counters. Written by the owner of the CPU.
    pub full_count: Atomic<u32>,
    pub big_count: Atomic<u32>,
    pub page_array: *mut *mut bindings::page,
    pub page_count: u32,
    /// Written by `Buf::close()` with release, pairs with the acquire in `Buf::is_finalized()`.
    pub finalized: Atomic<u32>,
    pub padding: *const Atomic<usize>,
    /// Belongs to the reader, under `Buf::reading`.
    pub bytes_consumed: Atomic<usize>,
    pub early_bytes: Atomic<usize>,
    /// The CPU that writes; 0 for a global buffer.
    pub cpu: Atomic<u32>,
}

/// `struct rchan`.
#[repr(C)]
pub struct Rchan {
    pub version: u32,
    pub subbuf_size: usize,
    pub n_subbufs: usize,
    pub alloc_size: usize,
    pub cb: *const bindings::rchan_callbacks,
    pub kref: Refcount,
    pub private_data: *mut c_void,
    pub buf: ferro_sys::percpu::PerCpuPtr<Buf>,
    /// Written through a pointer by `create_buf_file()`, while the channel is being opened.
    pub is_global: Atomic<i32>,
    /// For the C engine's list of channels; unused here.
    pub list: [usize; 2],
    pub parent: *mut bindings::dentry,
    pub has_base_filename: i32,
    pub base_filename: [c_char; NAME_MAX],
}

/// Length of the header's `base_filename`.
pub const NAME_MAX: usize = 255;

/// What the header's version of these structures is called.
pub const VERSION: u32 = bindings::RELAYFS_CHANNEL_VERSION;

/// Asserts that fields of two structures stand at the same place.
macro_rules! same_layout {
    ($ours:ty, $theirs:ty, [$($our:ident = $($their:ident).+),* $(,)?]) => {
        static_assert!(size_of::<$ours>() == size_of::<$theirs>());
        $(static_assert!(offset_of!($ours, $our) == offset_of!($theirs, $($their).+));)*
    };
}

same_layout!(RchanBuf, bindings::rchan_buf, [
    start = start,
    data = data,
    offset = offset,
    subbufs_produced = subbufs_produced,
    subbufs_consumed = subbufs_consumed,
    chan = chan,
    read_wait = read_wait,
    wakeup_work = wakeup_work,
    dentry = dentry,
    kref = kref,
    full_count = stats.full_count,
    big_count = stats.big_count,
    page_array = page_array,
    page_count = page_count,
    finalized = finalized,
    padding = padding,
    bytes_consumed = bytes_consumed,
    early_bytes = early_bytes,
    cpu = cpu,
]);

same_layout!(Rchan, bindings::rchan, [
    version = version,
    subbuf_size = subbuf_size,
    n_subbufs = n_subbufs,
    alloc_size = alloc_size,
    cb = cb,
    kref = kref,
    private_data = private_data,
    buf = buf,
    is_global = is_global,
    list = list,
    parent = parent,
    has_base_filename = has_base_filename,
    base_filename = base_filename,
]);
