// SPDX-License-Identifier: GPL-2.0

//! A buffer of the C interface, and a record being written to it.
//!
//! Contexts: [`BufRef::write_room`] on the CPU that owns the buffer, with interrupts off and within
//! [`Handle::enter`](super::channel::Handle::enter); the rest in any.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::cpu::task::cond_resched_killable;
use ferro_sys::cpu::IrqsOff;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

ferro_sys::same_offset!(
    rchan.private_data,
    rchan.buf,
    rchan_buf.padding,
    rchan_buf.cpu,
);

/// Size in bytes of a sub-buffer's header, if it has one: the sub-buffer's padding, a native
/// `size_t`.
pub(crate) const HEADER: usize = size_of::<usize>();

/// A buffer of an open channel.
///
/// # Invariants
///
/// During `'a` the pointer is valid, and so are its channel and its padding array. A
/// `BufRef<'static>` is used only from `file_created()` to `file_removing()` of
/// [`ChannelCallbacks`](super::channel::ChannelCallbacks), as its rules require.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufRef<'a>(NonNull<bindings::rchan_buf>, PhantomData<&'a ()>);

// SAFETY: A copy may be used on any CPU: fields of the buffer that change are read and written
// atomically, except for the bytes of a record, which `write_room()` writes on the CPU that owns
// the buffer, as its rules say.
unsafe impl Send for BufRef<'_> {}
// SAFETY: It has no interior mutability of its own; for the buffer that it points to see `Send`.
unsafe impl Sync for BufRef<'_> {}

impl BufRef<'_> {
    /// # Safety
    ///
    /// The type's invariants hold for the lifetime that the caller chooses.
    #[inline]
    pub(super) unsafe fn new(buf: NonNull<bindings::rchan_buf>) -> Self {
        // INVARIANT: By the rules of this function.
        Self(buf, PhantomData)
    }

    /// Returns the C structure.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::rchan_buf {
        self.0.as_ptr()
    }

    fn produced_counter(&self) -> &Atomic<usize> {
        // SAFETY: By the type invariant the field is valid; engine and clients access it with
        // single loads and stores.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).subbufs_produced) }
    }

    fn consumed_counter(&self) -> &Atomic<usize> {
        // SAFETY: By the type invariant the field is valid; engine and clients access it with
        // single loads and stores.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).subbufs_consumed) }
    }

    fn offset_counter(&self) -> &Atomic<usize> {
        // SAFETY: By the type invariant the field is valid; engine and clients access it with
        // single loads and stores.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).offset) }
    }

    fn sizes(&self) -> (usize, usize) {
        // SAFETY: By the type invariant buffer and channel are valid; the engine sets the sizes
        // before it makes the buffer, and does not change them.
        unsafe {
            let chan = (*self.0.as_ptr()).chan;
            ((*chan).subbuf_size, (*chan).n_subbufs)
        }
    }

    /// Returns the number of sub-buffers completed so far.
    pub(crate) fn produced(&self) -> usize {
        self.produced_counter().load(Acquire)
    }

    /// Returns the CPU that writes; 0 for a global buffer.
    pub(crate) fn cpu(&self) -> u32 {
        // SAFETY: By the type invariant the field is valid. A C client could change it, but the
        // number is used only as an index that is checked.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).cpu) }.load(Relaxed)
    }

    /// Writes the padding of the finished sub-buffer `prev` to its header.
    ///
    /// # Safety
    ///
    /// `prev` is a sub-buffer of this buffer that has been completed and has no writer. It is
    /// longer than [`HEADER`].
    pub(super) unsafe fn put_header(&self, prev: *mut c_void) {
        let (size, n_subbufs) = self.sizes();
        // SAFETY: By the type invariant the buffer is valid; its start does not change.
        let start = unsafe { (*self.0.as_ptr()).start };
        let index = prev.addr().wrapping_sub(start.addr()).checked_div(size);
        let Some(index) = index.filter(|&index| index < n_subbufs) else {
            return;
        };
        // SAFETY: By the type invariant the array is valid, with an element for each sub-buffer,
        // and `index` is one of them, as just checked. `prev` is the start of a sub-buffer without
        // a writer, by the rules of this function, and is longer than a header, which
        // `Builder::open()` has checked; mappings of it are read-only.
        unsafe {
            let padding = Atomic::from_ptr((*self.0.as_ptr()).padding.add(index)).load(Relaxed);
            prev.cast::<usize>().write_unaligned(padding);
        }
    }

    /// Returns the number of sub-buffers consumed so far.
    pub(crate) fn consumed(&self) -> usize {
        self.consumed_counter().load(Relaxed)
    }

    /// Returns the number of bytes without data in each sub-buffer.
    pub(crate) fn padding(&self) -> impl Iterator<Item = usize> + '_ {
        let (_, n_subbufs) = self.sizes();
        (0..n_subbufs).map(|index| {
            // SAFETY: By the type invariant the array is valid, with an element for each
            // sub-buffer; all access them with single loads and stores.
            unsafe { Atomic::from_ptr((*self.0.as_ptr()).padding.add(index)) }.load(Relaxed)
        })
    }

    /// Returns the length of the padding array in bytes.
    pub(crate) fn padding_len(&self) -> usize {
        // Cannot overflow: the array exists.
        self.sizes().1 * size_of::<usize>()
    }

    /// Reports `n` completed sub-buffers as read.
    ///
    /// Context: process. Errors: -EINTR if the task is being killed; then only a part has been
    /// reported.
    pub(crate) fn consume(&self, n: usize) -> Result {
        let (_, n_subbufs) = self.sizes();
        let mut left = n;
        while left > 0 {
            cond_resched_killable()?;
            // In overwrite mode, more may have been completed than the buffer has. The engines
            // ignore such a number.
            let some = left.min(n_subbufs);
            // SAFETY: By the type invariant buffer and channel are valid. The engine does not rely
            // on the number: it bounds the increment.
            unsafe {
                let buf = self.0.as_ptr();
                bindings::relay_subbufs_consumed((*buf).chan, (*buf).cpu, some);
            }
            left -= some;
        }
        Ok(())
    }

    /// Returns true if the engine finds no free sub-buffer.
    pub(super) fn is_full(&self) -> bool {
        // SAFETY: By the type invariant this is a buffer of an open channel, which is all it
        // requires.
        unsafe { bindings::relay_buf_full(self.0.as_ptr()) != 0 }
    }

    /// Reserves a header at the start of the current sub-buffer, as `subbuf_start_reserve()` does.
    pub(super) fn reserve_header(&self) {
        self.offset_counter().store(HEADER, Relaxed);
    }

    /// Writes a record of `len` bytes in place. `fill` returns the number of bytes that it has
    /// filled; the rest becomes zero. Returns false if there is no room for the record, or if
    /// `fill` has flushed the buffer.
    #[inline]
    pub(crate) fn write_room(
        &self,
        len: usize,
        _irqs: &IrqsOff,
        fill: impl FnOnce(&mut Room) -> usize,
    ) -> bool {
        let (size, _) = self.sizes();
        let counter = self.offset_counter();
        let fits = |offset: usize| offset.checked_add(len).is_some_and(|end| end <= size);
        if !fits(counter.load(Relaxed)) {
            // SAFETY: By the type invariant the buffer is of an open channel. It is this CPU's, or
            // the caller has the lock of a global one; with interrupts off, as `_irqs` says, it is
            // not switched by another writer at this time.
            if unsafe { bindings::relay_switch_subbuf(self.0.as_ptr(), len) } != len {
                return false;
            }
        }
        let offset = counter.load(Relaxed);
        if !fits(offset) {
            return false;
        }
        // INVARIANT: After `offset` the current sub-buffer has `len` bytes, which belong to the
        // next writer on this CPU. The room is dropped when this function returns.
        let mut room = Room {
            buf: BufRef(self.0, PhantomData),
            data: self.data(),
            offset,
            len,
        };
        let used = fill(&mut room);
        room.commit(used)
    }

    /// Returns the bytes in the current sub-buffer. Valid only while there is no writer.
    #[cfg(CONFIG_RELAY_RUST_API_KUNIT_TEST)]
    pub(crate) fn written(&self) -> Result<KVec<u8>> {
        let mut bytes = KVec::new();
        for i in 0..self.offset_counter().load(Acquire).min(self.sizes().0) {
            // SAFETY: By the type invariant the memory is valid, and `i` is within the sub-buffer,
            // as just bounded.
            bytes.push(unsafe { self.data().add(i).read_volatile() }, GFP_KERNEL)?;
        }
        Ok(bytes)
    }

    /// Returns the start of the current sub-buffer.
    fn data(&self) -> *mut u8 {
        // SAFETY: By the type invariant the field is valid; engine and clients access it with
        // single loads and stores.
        unsafe { Atomic::from_ptr((&raw mut (*self.0.as_ptr()).data).cast::<*mut u8>()) }
            .load(Relaxed)
    }
}

/// Bytes within a sub-buffer that readers do not see yet.
///
/// # Invariants
///
/// As long as the buffer's `data` and `offset` have the values here, `len` bytes there can be
/// written and belong to this object. It exists only during [`BufRef::write_room`], which lends it,
/// and with it the buffer.
pub(crate) struct Room {
    buf: BufRef<'static>,
    data: *mut u8,
    offset: usize,
    len: usize,
}

impl Room {
    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of offset `at`, if `len` bytes fit there and no other write to the
    /// buffer has occurred since.
    #[inline]
    fn address(&self, at: usize, len: usize) -> Option<*mut u8> {
        let untouched =
            self.buf.offset_counter().load(Relaxed) == self.offset && self.buf.data() == self.data;
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len);
        // Cannot overflow: the address is within the sub-buffer.
        (untouched && fits).then(|| self.data.wrapping_add(self.offset + at))
    }

    /// Copies `bytes` to `at`, if they fit there.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.address(at, bytes.len()) else {
            return false;
        };
        // SAFETY: `address()` has checked that the bytes are within the room, and that it is still
        // this object's, by the type invariant. They are no Rust object's, so `bytes` is elsewhere;
        // mappings of them are read-only.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }

    /// Writes zeros after the first `used` bytes and makes the record visible to readers.
    #[inline]
    fn commit(self, used: usize) -> bool {
        let rest = self.len.saturating_sub(used);
        let Some(to) = self.address(used.min(self.len), rest) else {
            return false;
        };
        // SAFETY: `address()` has checked that `rest` bytes from there are within the room, and
        // that it is still this object's, by the type invariant.
        unsafe { to.write_bytes(0, rest) };
        // Release: a reader that sees the offset sees the record.
        self.buf
            .offset_counter()
            .store(self.offset + self.len, Release);
        true
    }
}
