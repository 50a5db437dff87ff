// SPDX-License-Identifier: GPL-2.0

//! Calls to the C interface, and the callbacks that it makes.
//!
//! Contexts: [`BufRef::write_room`] on the CPU that owns the buffer with interrupts off, and within [`Handle::enter`];
//! callbacks in process context, except `subbuf_start()`, which runs where a record is written.

use core::ptr::NonNull;

use ferro_sys::cpu::irq_work::HasIrqWork;
use ferro_sys::cpu::irq_work::IrqWork;
use ferro_sys::cpu::percpu::load_this_cpu;
use ferro_sys::cpu::percpu::PerCpuEntered;
use ferro_sys::cpu::percpu::PerCpuFlag;
use ferro_sys::cpu::task::is_being_killed;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::dentry::Dentry;
use ferro_sys::sync::counted::Shared;
use ferro_sys::sync::deferred::Deferred;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use ferro_sys::sync::word;
use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

use crate::builder::Mode;
use crate::control::ChannelState;
use crate::header::Headers;
use crate::header::HEADER;

/// A buffer of an open channel.
///
/// # Invariants
///
/// The pointer is valid, and so are its channel and its padding array, as long as anybody has a copy:
/// until the buffer's control files have been removed, and within a write.
#[derive(Clone, Copy)]
pub(crate) struct BufRef(NonNull<bindings::rchan_buf>);

// SAFETY: What changes is read and written atomically, or on one CPU.
unsafe impl Send for BufRef {}
// SAFETY: As above.
unsafe impl Sync for BufRef {}

impl BufRef {
    /// A field that others change.
    fn counter(
        &self,
        field: impl FnOnce(*mut bindings::rchan_buf) -> *mut usize,
    ) -> &Atomic<usize> {
        // SAFETY: By the type invariant; everyone accesses the fields with single loads and stores.
        unsafe { Atomic::from_ptr(field(self.0.as_ptr())) }
    }

    fn produced_counter(&self) -> &Atomic<usize> {
        // SAFETY: Within the buffer.
        self.counter(|buf| unsafe { &raw mut (*buf).subbufs_produced })
    }

    fn offset_counter(&self) -> &Atomic<usize> {
        // SAFETY: Within the buffer.
        self.counter(|buf| unsafe { &raw mut (*buf).offset })
    }

    fn sizes(&self) -> (usize, usize) {
        // SAFETY: By the type invariant; the sizes do not change.
        unsafe {
            let chan = (*self.0.as_ptr()).chan;
            ((*chan).subbuf_size, (*chan).n_subbufs)
        }
    }

    /// Sub-buffers completed so far.
    pub(crate) fn produced(&self) -> usize {
        self.produced_counter().load(Acquire)
    }

    /// Sub-buffers that readers may take: all that are completed, with their header if there is one.
    pub(crate) fn finished(&self) -> usize {
        // SAFETY: Every buffer is one of a channel that `Handle::open()` opened.
        match unsafe { state_of(self.0) }.headers() {
            Some(headers) => headers.produced(self.cpu()),
            None => self.produced(),
        }
    }

    /// The CPU that writes; 0 for a global buffer.
    fn cpu(&self) -> u32 {
        // SAFETY: By the type invariant; the engine sets it before anything is written.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.as_ptr()).cpu) }.load(Relaxed)
    }

    /// Writes the padding of the finished sub-buffer `prev` to its head.
    ///
    /// # Safety
    ///
    /// `prev` is a sub-buffer of this buffer that has been completed and that nobody writes.
    unsafe fn put_header(&self, prev: *mut c_void) {
        let (size, n_subbufs) = self.sizes();
        // SAFETY: By the type invariant; the start does not change.
        let start = unsafe { (*self.0.as_ptr()).start };
        let index = prev.addr().wrapping_sub(start.addr()).checked_div(size);
        let Some(index) = index.filter(|&index| index < n_subbufs) else {
            return;
        };
        // SAFETY: By the type invariant the array has an element a sub-buffer. A sub-buffer of a
        // channel with headers has room for one.
        unsafe {
            let padding = Atomic::from_ptr((*self.0.as_ptr()).padding.add(index)).load(Relaxed);
            prev.cast::<usize>().write_unaligned(padding);
        }
    }

    /// Sub-buffers consumed so far.
    pub(crate) fn consumed(&self) -> usize {
        // SAFETY: Within the buffer.
        self.counter(|buf| unsafe { &raw mut (*buf).subbufs_consumed })
            .load(Relaxed)
    }

    /// Bytes of each sub-buffer that hold no data.
    pub(crate) fn padding(&self) -> impl Iterator<Item = usize> + '_ {
        let (_, n_subbufs) = self.sizes();
        (0..n_subbufs).map(|index| {
            // SAFETY: By the type invariant; the array has an element a sub-buffer.
            unsafe { Atomic::from_ptr((*self.0.as_ptr()).padding.add(index)) }.load(Relaxed)
        })
    }

    /// Bytes of the padding array.
    pub(crate) fn padding_len(&self) -> usize {
        // No overflow: the array is there.
        self.sizes().1 * size_of::<usize>()
    }

    /// Reports `n` sub-buffers as read.
    ///
    /// Errors: -EINVAL if there are not as many.
    pub(crate) fn consume(&self, n: usize) -> Result {
        if n > self.finished().wrapping_sub(self.consumed()) {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant.
        unsafe {
            let buf = self.0.as_ptr();
            bindings::relay_subbufs_consumed((*buf).chan, (*buf).cpu, n);
        }
        Ok(())
    }

    /// Writes a record of `len` bytes in place; `fill` returns how many it has filled, and the rest
    /// becomes zero. False if there is no room for it, or if `fill` has the buffer flushed.
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
            // SAFETY: By the type invariant; this CPU writes the buffer, with interrupts off.
            if unsafe { bindings::relay_switch_subbuf(self.0.as_ptr(), len) } != len {
                return false;
            }
        }
        let offset = counter.load(Relaxed);
        if !fits(offset) {
            return false;
        }
        // INVARIANT: Behind `offset` the current sub-buffer has `len` bytes, which belong to who
        // writes next, on this CPU.
        let mut room = Room {
            buf: *self,
            data: self.data(),
            offset,
            len,
        };
        let used = fill(&mut room);
        room.commit(used)
    }

    /// What has been written to the current sub-buffer, while nobody writes.
    #[cfg(CONFIG_RELAY_RUST_API_KUNIT_TEST)]
    pub(crate) fn written(&self) -> Result<KVec<u8>> {
        let mut bytes = KVec::new();
        for i in 0..self.offset_counter().load(Acquire).min(self.sizes().0) {
            // SAFETY: By the type invariant; within the sub-buffer.
            bytes.push(unsafe { self.data().add(i).read_volatile() }, GFP_KERNEL)?;
        }
        Ok(bytes)
    }

    /// Start of the current sub-buffer.
    fn data(&self) -> *mut u8 {
        // SAFETY: By the type invariant; everyone accesses the field with single loads and stores.
        unsafe { Atomic::from_ptr((&raw mut (*self.0.as_ptr()).data).cast::<*mut u8>()) }
            .load(Relaxed)
    }
}

/// An open channel of the C interface, closed when it is dropped.
///
/// # Invariants
///
/// The pointer comes from `relay_open()`, with the state as its private data.
pub(crate) struct Handle {
    chan: NonNull<bindings::rchan>,
    /// A record is being written on this CPU.
    writing: PerCpuFlag,
    state: ARef<Shared<ChannelState>>,
}

// SAFETY: Relay channels may be used from any CPU.
unsafe impl Send for Handle {}
// SAFETY: As above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Opens a channel with files in `dir`.
    ///
    /// Errors: -EINTR if the task is being killed, else -ENOMEM, as `relay_open()` does not say more.
    pub(crate) fn open(
        dir: &Dir,
        base: &CStr,
        sizes: (usize, usize),
        state: ARef<Shared<ChannelState>>,
    ) -> Result<Self> {
        let writing = PerCpuFlag::new()?;
        let private = core::ptr::from_ref::<ChannelState>(&state)
            .cast_mut()
            .cast();
        // SAFETY: The callbacks are static; name and directory are valid; the state outlives the
        // channel.
        let chan = unsafe {
            bindings::relay_open(
                base.as_char_ptr(),
                dir.as_ptr(),
                sizes.0,
                sizes.1,
                callbacks(&state),
                private,
            )
        };
        let Some(chan) = NonNull::new(chan) else {
            settle(&state);
            return Err(if is_being_killed() { EINTR } else { ENOMEM });
        };
        // INVARIANT: Just opened.
        Ok(Self {
            chan,
            writing,
            state,
        })
    }

    /// Begins a record on this CPU; `None` if there is one that this interrupts.
    #[inline(always)]
    pub(crate) fn enter<'a>(&'a self, irqs: &'a IrqsOff) -> Option<PerCpuEntered<'a>> {
        self.writing.enter(irqs)
    }

    /// The buffer that this CPU writes.
    #[inline]
    pub(crate) fn this_buf(&self, _irqs: &IrqsOff) -> Option<BufRef> {
        // SAFETY: By the type invariant; this CPU is not left. Slots are single loads and stores.
        let buf = unsafe { load_this_cpu((*self.chan.as_ptr()).buf) };
        // INVARIANT: The channel is open, which keeps its buffers.
        NonNull::new(buf).map(BufRef)
    }

    /// Writes a record to the current sub-buffer of this CPU's buffer. False, and nothing is written,
    /// if there is no room for it, or another record is being written.
    #[inline]
    pub(crate) fn append(&self, data: &[u8], irqs: &IrqsOff) -> bool {
        let Some(_writing) = self.enter(irqs) else {
            return false;
        };
        let Some(BufRef(buf)) = self.this_buf(irqs) else {
            return false;
        };
        // SAFETY: By the type invariants; the size does not change, and the rest is accessed with
        // single loads and stores.
        let (size, offset, start) = unsafe {
            let buf = buf.as_ptr();
            (
                (*self.chan.as_ptr()).subbuf_size,
                word::load(&raw const (*buf).offset),
                word::load(&raw const (*buf).data).cast::<u8>(),
            )
        };
        // No overflow: a slice is shorter than half of the address space, an offset than 4 GiB.
        let end = offset.wrapping_add(data.len());
        if end > size {
            return false;
        }
        // SAFETY: What is behind the offset belongs to who writes next, on this CPU. User space may
        // only read the memory, through its own mapping. The offset is stored with release: a reader
        // that sees it sees the record.
        unsafe {
            word::copy(start.add(offset), data.as_ptr(), data.len());
            word::store_release(&raw mut (*buf.as_ptr()).offset, end);
        }
        true
    }

    /// The buffer of any CPU, if it has one.
    pub(crate) fn buf(&self, cpu: CpuId) -> Option<BufRef> {
        // SAFETY: By the type invariant; the CPU is possible. Slots are single loads and stores.
        let slot = unsafe {
            let slots = (*self.chan.as_ptr()).buf.cast();
            Atomic::from_ptr(bindings::ferro_per_cpu_ptr(slots, cpu.get()))
        };
        // INVARIANT: The channel is open, which keeps its buffers.
        NonNull::new(slot.load(Acquire).cast()).map(BufRef)
    }

    /// `relay_flush()`.
    pub(crate) fn flush(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::relay_flush(self.chan.as_ptr()) };
    }

    /// `relay_reset()`, while nobody writes.
    pub(crate) fn reset(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::relay_reset(self.chan.as_ptr()) };
    }

    /// How often no sub-buffer was free, and how many records were too large.
    pub(crate) fn stats(&self) -> (usize, usize) {
        let stats = |flag: u32| {
            // SAFETY: By the type invariant.
            unsafe { bindings::relay_stats(self.chan.as_ptr(), flag.try_into().unwrap_or(0)) }
        };
        (
            stats(bindings::RELAY_STATS_BUF_FULL),
            stats(bindings::RELAY_STATS_WRT_BIG),
        )
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; nobody has a reference any more.
        unsafe { bindings::relay_close(self.chan.as_ptr()) };
        settle(&self.state);
    }
}

/// What a client's object consists of, which this module owns: when a client has forgotten the object, it goes with
/// this module. It may be dropped anywhere: where nothing may sleep, a work item drops the parts.
///
/// # Invariants
///
/// The pointer is valid until this is dropped: the parts are in the list until then, or this module goes, which it does
/// when no other module uses its code any more.
pub(crate) struct Kept<T: Send + Sync + 'static> {
    parts: NonNull<T>,
    _listed: Deferred<Listed>,
}

/// The address of parts in the list, from which they are taken when this is dropped.
struct Listed(NonNull<u8>);

// SAFETY: The pointer is only compared.
unsafe impl Send for Listed {}

impl Drop for Listed {
    fn drop(&mut self) {
        discard(self.0);
    }
}

// SAFETY: Gives out shared references and drops what can be sent.
unsafe impl<T: Send + Sync> Send for Kept<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Kept<T> {}

/// Anything that can be dropped.
trait Parts: Send + Sync {}

impl<T: Send + Sync> Parts for T {}

/// Waits for the list of what clients have open.
fn kept() -> StaticGuard<KVec<KBox<dyn Parts>>> {
    extern "C" {
        /// Defined in `exports.c`.
        static mut relay_api_mutex: bindings::mutex;
    }
    // SAFETY: The mutex is defined with `DEFINE_MUTEX()` and used here only.
    static KEPT: StaticMutex<KVec<KBox<dyn Parts>>> =
        unsafe { StaticMutex::new(&raw mut relay_api_mutex, KVec::new()) };
    KEPT.lock()
}

impl<T: Send + Sync + 'static> Kept<T> {
    /// Errors: -ENOMEM.
    pub(crate) fn new(parts: T) -> Result<Self> {
        let parts = KBox::new(parts, GFP_KERNEL)?;
        let pointer = NonNull::from(&*parts);
        let listed = Deferred::new(Ok::<_, Error>(Listed(pointer.cast())))?;
        // Where there is no memory, the list is given up before the parts are dropped, which may look for others in it.
        let mut list = kept();
        list.reserve(1, GFP_KERNEL)?;
        list.push(parts as KBox<dyn Parts>, GFP_KERNEL)?;
        drop(list);
        // INVARIANT: It is in the list.
        Ok(Self {
            parts: pointer,
            _listed: listed,
        })
    }
}

impl<T: Send + Sync + 'static> core::ops::Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant.
        unsafe { self.parts.as_ref() }
    }
}

/// Drops the parts that are at this address.
fn discard(address: NonNull<u8>) {
    let mut kept = kept();
    let is_it = |parts: &KBox<dyn Parts>| (&raw const **parts).addr() == address.addr().get();
    let parts = kept
        .iter()
        .position(is_it)
        .and_then(|index| kept.remove(index).ok());
    if kept.is_empty() {
        // Nobody frees a static when the module goes.
        *kept = KVec::new();
    }
    // With the lock given up: an application's parts have a channel.
    drop(kept);
    drop(parts);
}

/// This module goes: drops what clients have forgotten.
pub(crate) fn leave() {
    // What has been made first may have some of the later ones.
    let next = || kept().first().map(|parts| NonNull::from(&**parts).cast());
    while let Some(address) = next() {
        pr_notice!("a channel or an application that nobody has closed goes\n");
        discard(address);
    }
}

/// Waits for what the callbacks have queued, once the engine does not call them any more.
fn settle(state: &ChannelState) {
    if let Some(headers) = state.headers() {
        headers.settle();
    }
}

/// Bytes within a sub-buffer that nobody reads yet.
///
/// # Invariants
///
/// As long as the buffer's `data` and `offset` are those here, `len` bytes there can be written and
/// belong to the owner of this object, who does not keep it beyond the write.
pub(crate) struct Room {
    buf: BufRef,
    data: *mut u8,
    offset: usize,
    len: usize,
}

impl Room {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where `at` is, if `len` bytes fit there and nobody else has written to the buffer since.
    #[inline]
    fn place(&self, at: usize, len: usize) -> Option<*mut u8> {
        let untouched =
            self.buf.offset_counter().load(Relaxed) == self.offset && self.buf.data() == self.data;
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len);
        // No overflow: it is within the sub-buffer.
        (untouched && fits).then(|| self.data.wrapping_add(self.offset + at))
    }

    /// Copies `bytes` to `at`, if they fit there.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(to) = self.place(at, bytes.len()) else {
            return false;
        };
        // SAFETY: By the type invariant; user space may only read the memory, through its own
        // mapping.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }

    /// Writes zeros behind the first `used` bytes and shows the record to readers.
    #[inline]
    fn commit(self, used: usize) -> bool {
        let rest = self.len.saturating_sub(used);
        let Some(to) = self.place(used.min(self.len), rest) else {
            return false;
        };
        // SAFETY: By the type invariant.
        unsafe { to.write_bytes(0, rest) };
        // Release: a reader that sees the offset sees the record.
        self.buf
            .offset_counter()
            .store(self.offset + self.len, Release);
        true
    }
}

struct Callbacks(bindings::rchan_callbacks);
// SAFETY: Constant functions.
unsafe impl Sync for Callbacks {}

static NO_OVERWRITE: Callbacks = Callbacks(bindings::rchan_callbacks {
    // The engine's default is this mode.
    subbuf_start: None,
    create_buf_file: Some(create_buf_file),
    remove_buf_file: Some(remove_buf_file),
});

static OVERWRITE: Callbacks = Callbacks(bindings::rchan_callbacks {
    subbuf_start: Some(enter_always),
    create_buf_file: Some(create_buf_file),
    remove_buf_file: Some(remove_buf_file),
});

static HEADERS: Callbacks = Callbacks(bindings::rchan_callbacks {
    subbuf_start: Some(enter_with_header),
    create_buf_file: Some(create_buf_file),
    remove_buf_file: Some(remove_buf_file),
});

fn callbacks(state: &ChannelState) -> *const bindings::rchan_callbacks {
    match state.mode() {
        _ if state.headers().is_some() => &raw const HEADERS.0,
        Mode::NoOverwrite => &raw const NO_OVERWRITE.0,
        Mode::Overwrite => &raw const OVERWRITE.0,
    }
}

/// # Safety
///
/// Called by the engine for a buffer of a channel that [`Handle::open`] opened, on the CPU that
/// writes it or while nobody does.
unsafe extern "C" fn enter_with_header(
    buf: *mut bindings::rchan_buf,
    _subbuf: *mut c_void,
    prev: *mut c_void,
) -> c_int {
    // INVARIANT: The engine passes a buffer that it is using.
    let Some(buf) = NonNull::new(buf).map(BufRef) else {
        return 0;
    };
    // SAFETY: A buffer of our channel.
    let state = unsafe { state_of(buf.0) };
    let Some(headers) = state.headers() else {
        return 0;
    };
    if !prev.is_null() {
        // SAFETY: The engine has just completed it, or tries again to leave it.
        unsafe { buf.put_header(prev) };
    }
    headers.finished(buf.cpu(), buf.produced());
    // SAFETY: The buffer is in use.
    if state.mode() == Mode::NoOverwrite && unsafe { bindings::relay_buf_full(buf.0.as_ptr()) } != 0
    {
        headers.full(buf.cpu());
        return 0;
    }
    // As subbuf_start_reserve() does; that a header fits was checked before the channel was opened.
    buf.offset_counter().store(HEADER, Relaxed);
    1
}

/// The work of [`Headers::say`], for its initialisation only.
pub(crate) fn say_work() -> impl PinInit<IrqWork> {
    // SAFETY: `Headers::new()`, the only caller, makes it that field.
    unsafe { IrqWork::new::<Headers>() }
}

// SAFETY: The offset is that of the field that `say_work()` makes, and `settle()` is called
// once the engine queues it no more, before `Handle` gives up the state that has the headers.
unsafe impl HasIrqWork for Headers {
    const OFFSET: usize = core::mem::offset_of!(Headers, say);

    fn run(&self) {
        self.say_full();
    }
}

/// # Safety
///
/// Called by the engine for a buffer of a channel that [`Handle::open`] opened.
unsafe extern "C" fn enter_always(
    _buf: *mut bindings::rchan_buf,
    _subbuf: *mut c_void,
    _prev: *mut c_void,
) -> c_int {
    1
}

/// The state that [`Handle::open`] gave to the channel of `buf`.
///
/// # Safety
///
/// `buf` is a buffer of such a channel.
unsafe fn state_of<'a>(buf: NonNull<bindings::rchan_buf>) -> &'a ChannelState {
    // SAFETY: By the rules of this function; the state outlives the channel.
    unsafe { &*(*(*buf.as_ptr()).chan).private_data.cast::<ChannelState>() }
}

/// # Safety
///
/// Called by the engine for a buffer of a channel that [`Handle::open`] opened.
unsafe extern "C" fn create_buf_file(
    filename: *const c_char,
    parent: *mut bindings::dentry,
    _mode: bindings::umode_t,
    buf: *mut bindings::rchan_buf,
    is_global: *mut c_int,
) -> *mut bindings::dentry {
    let Some(buf) = NonNull::new(buf) else {
        return EINVAL.to_ptr();
    };
    // SAFETY: The engine passes a buffer of our channel, a name and a place for the answer.
    let (state, name) = unsafe {
        let state = state_of(buf);
        *is_global = state.is_global().into();
        (state, CStr::from_char_ptr(filename))
    };
    let now = match state.name_now(name) {
        Ok(now) => now,
        Err(e) => return e.to_ptr(),
    };
    // SAFETY: The file's operations are those of relay, whose data is the buffer. They guard
    // themselves against removal with the buffer's count, so the plain proxy is enough; and it
    // passes mmap on, with either engine.
    let dentry = unsafe {
        bindings::debugfs_create_file_unsafe(
            now.as_char_ptr(),
            state.permissions(),
            parent,
            buf.as_ptr().cast(),
            &raw const bindings::relay_file_operations,
        )
    };
    if let Err(e) = from_err_ptr(dentry) {
        return e.to_ptr();
    }
    // SAFETY: The engine passes the directory that `Handle::open()` got, which the channel keeps.
    let dir = unsafe { DirRef::from_raw(parent) };
    let Some(data) = NonNull::new(dentry) else {
        return ENOMEM.to_ptr();
    };
    // SAFETY: The file has just been made, in a directory that stays.
    let data = unsafe { Dentry::get(data) };
    // INVARIANT: The control files are removed in `remove_buf_file()`, before the buffer goes.
    match state.add_controls(&dir, name, data, BufRef(buf)) {
        Ok(()) => dentry,
        Err(e) => {
            // SAFETY: The file just made.
            unsafe { bindings::debugfs_remove(dentry) };
            e.to_ptr()
        }
    }
}

/// # Safety
///
/// Called by the engine for a buffer of a channel that [`Handle::open`] opened.
unsafe extern "C" fn remove_buf_file(dentry: *mut bindings::dentry) -> c_int {
    // SAFETY: The engine passes the file that `create_buf_file()` made, whose data is the buffer.
    unsafe {
        if let Some(buf) = NonNull::new((*(*dentry).d_inode).i_private.cast()) {
            state_of(buf).remove_controls(BufRef(buf));
        }
        bindings::debugfs_remove(dentry);
    }
    0
}

impl PartialEq for BufRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
