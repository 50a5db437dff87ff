// SPDX-License-Identifier: GPL-2.0

//! Structures of `<linux/relay.h>`, field for field.
//!
//! C clients and the header's inline functions access them at any time, so each field that changes
//! is an atomic. Sizes and offsets are compared with the header at compile time.

use core::mem::offset_of;
use core::mem::size_of;

use ferro_sys::bindings;
use ferro_sys::cpu::irq_work::HasIrqWork;
use ferro_sys::cpu::irq_work::IrqWork;
use ferro_sys::cpu::percpu::PerCpuPtr;
use ferro_sys::cpu::CpuId;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::sync::wait::WaitQueue;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::static_lock_class;
use kernel::sync::atomic::Atomic;
use kernel::sync::Refcount;

/// `struct rchan_buf`.
#[repr(C, align(64))]
#[pin_data(PinnedDrop)]
pub(crate) struct RchanBuf {
    pub(crate) start: *mut u8,
    /// Start of the current sub-buffer. Written by `Buf::switch()`, read by the inline writers.
    pub(crate) data: Atomic<*mut u8>,
    /// Number of used bytes in the current sub-buffer. Written by the inline writers and by the
    /// owner of the CPU in `Buf::switch()`; read by `Buf::view()`.
    pub(crate) offset: Atomic<usize>,
    /// Written by `Buf::switch()` with release; pairs with the acquire in `Buf::view()`.
    pub(crate) subbufs_produced: Atomic<usize>,
    /// Written by readers with release; pairs with the acquire in `Buf::is_full()`.
    pub(crate) subbufs_consumed: Atomic<usize>,
    pub(crate) chan: *const Rchan,
    #[pin]
    pub(crate) read_wait: WaitQueue,
    #[pin]
    pub(crate) wakeup_work: IrqWork,
    pub(crate) dentry: Atomic<*mut bindings::dentry>,
    pub(crate) kref: Refcount,
    /// Lower halves of the engine's own 64-bit counters. Written by the owner of the CPU.
    pub(crate) full_count: Atomic<u32>,
    pub(crate) big_count: Atomic<u32>,
    pub(crate) page_array: *mut *mut bindings::page,
    pub(crate) page_count: u32,
    /// Written by `Buf::close()` with release, pairs with the acquire in `Buf::is_finalized()`.
    pub(crate) finalized: Atomic<u32>,
    pub(crate) padding: *const Atomic<usize>,
    /// Number of bytes read from the reader's sub-buffer. Changed under `Buf::reading`.
    pub(crate) bytes_consumed: Atomic<usize>,
    /// Bytes of sub-buffers that were completed before the buffer had a file.
    pub(crate) early_bytes: Atomic<usize>,
    /// The CPU that writes; 0 for a global buffer.
    pub(crate) cpu: Atomic<u32>,
}

impl RchanBuf {
    /// Initialises the empty buffer of `cpu` with its `memory`; `padding` has an element for each
    /// sub-buffer.
    ///
    /// Errors: -EOVERFLOW.
    pub(crate) fn new(
        chan: *const Rchan,
        memory: &PageBuf,
        padding: &[Atomic<usize>],
        cpu: CpuId,
    ) -> Result<impl PinInit<Self>> {
        let base = memory.base().as_ptr();
        let (page_array, page_count) = memory.page_array();
        let page_count = u32::try_from(page_count)?;
        let padding = padding.as_ptr();
        Ok(pin_init!(Self {
            start: base,
            data: Atomic::new(base),
            offset: Atomic::new(0),
            subbufs_produced: Atomic::new(0),
            subbufs_consumed: Atomic::new(0),
            chan,
            read_wait <- WaitQueue::new(c"relay", static_lock_class!()),
            // SAFETY: This initialises the field that `OFFSET` names.
            wakeup_work <- unsafe { IrqWork::new::<Self>() },
            dentry: Atomic::new(core::ptr::null_mut()),
            kref: Refcount::new(1),
            full_count: Atomic::new(0),
            big_count: Atomic::new(0),
            page_array,
            page_count,
            finalized: Atomic::new(0),
            padding,
            bytes_consumed: Atomic::new(0),
            early_bytes: Atomic::new(0),
            cpu: Atomic::new(cpu.get()),
        }))
    }
}

// SAFETY: `new()` initialises the field with this offset for this type, and no other code can make
// such work. A pinned object is not freed before it is dropped, and the drop waits for the work; a
// client that still writes after it has closed its channel breaks the rules of the header.
unsafe impl HasIrqWork for RchanBuf {
    const OFFSET: usize = offset_of!(Self, wakeup_work);

    fn run(&self) {
        self.read_wait.wake_all();
    }
}

#[pinned_drop]
impl PinnedDrop for RchanBuf {
    fn drop(self: Pin<&mut Self>) {
        self.wakeup_work.sync();
    }
}

// SAFETY: The pointers are to memory that no task owns; each use of them is in an `unsafe` block of
// its own.
unsafe impl Send for RchanBuf {}
// SAFETY: Fields that change are atomic or have a lock of their own; the pointers do not change.
unsafe impl Sync for RchanBuf {}

/// `struct rchan`.
#[repr(C)]
pub(crate) struct Rchan {
    pub(crate) version: u32,
    pub(crate) subbuf_size: usize,
    pub(crate) n_subbufs: usize,
    pub(crate) alloc_size: usize,
    pub(crate) cb: *const bindings::rchan_callbacks,
    pub(crate) kref: Refcount,
    pub(crate) private_data: *mut c_void,
    pub(crate) buf: PerCpuPtr<RchanBuf>,
    /// Written through a pointer by `create_buf_file()`, while the channel is being opened.
    pub(crate) is_global: Atomic<i32>,
    /// For the C engine's list of channels; unused here.
    pub(crate) list: [usize; 2],
    /// Written under the registry's mutex, as are the next two.
    pub(crate) parent: Atomic<*mut bindings::dentry>,
    pub(crate) has_base_filename: Atomic<i32>,
    pub(crate) base_filename: [Atomic<i8>; NAME_MAX],
}

// SAFETY: The pointers are the client's, and are only passed back to it.
unsafe impl Send for Rchan {}
// SAFETY: Fields that change are atomic; the pointers do not change, and are only passed back to
// the client.
unsafe impl Sync for Rchan {}

/// Length of the header's `base_filename`.
pub(crate) const NAME_MAX: usize = 255;

/// Version of these structures in the header.
pub(crate) const VERSION: u32 = bindings::RELAYFS_CHANNEL_VERSION;

ferro_sys::same_offset!(
    rchan.private_data,
    rchan.buf,
    rchan.base_filename,
    rchan_buf.wakeup_work,
    rchan_buf.kref,
    rchan_buf.padding,
    rchan_buf.cpu,
);
static_assert!(size_of::<bindings::rchan>() == bindings::FERRO_SIZE_rchan as usize);
static_assert!(size_of::<bindings::rchan_buf>() == bindings::FERRO_SIZE_rchan_buf as usize);

/// Asserts that fields of two structures have the same offsets.
macro_rules! same_layout {
    ($ours:ty, $theirs:ty, [$($our:ident = $($their:ident).+),* $(,)?]) => {
        static_assert!(size_of::<$ours>() == size_of::<$theirs>());
        $(static_assert!(offset_of!($ours, $our) == offset_of!($theirs, $($their).+));)*
    };
}

same_layout!(
    RchanBuf,
    bindings::rchan_buf,
    [
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
    ]
);

same_layout!(
    Rchan,
    bindings::rchan,
    [
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
    ]
);
