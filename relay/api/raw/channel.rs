// SPDX-License-Identifier: GPL-2.0

//! A channel of the C interface, and its callbacks.
//!
//! Contexts: opening, closing, flushing and resetting in process context; writing in any, with
//! interrupts off; callbacks in process context, except `subbuf_start()`, which runs in the writing
//! context.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::cpu::percpu::load_this_cpu;
use ferro_sys::cpu::percpu::PerCpuEntered;
use ferro_sys::cpu::percpu::PerCpuFlag;
use ferro_sys::cpu::task::is_being_killed;
use ferro_sys::cpu::CpuId;
use ferro_sys::cpu::IrqsOff;
use ferro_sys::fs::debugfs::CFile;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::sync::refcounted::Shared;
use ferro_sys::sync::shared_word;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;

use super::buf::BufRef;

/// Behaviour of a channel when its current sub-buffer is full and the next one is needed.
#[derive(Clone, Copy)]
pub(crate) enum SubbufStart {
    /// Enters the next one if it is free: the engine's default.
    IfFree,
    /// Enters the next one.
    Always,
    /// Writes the header of the previous one, and asks [`ChannelCallbacks::may_enter`].
    WithHeader,
}

/// Callbacks of a channel.
///
/// # Safety
///
/// A [`BufRef`] that [`ChannelCallbacks::file_created`] gets is not used after
/// [`ChannelCallbacks::file_removing`] has returned for it. Sub-buffers of a channel that starts
/// them [`SubbufStart::WithHeader`] are longer than a header.
pub(crate) unsafe trait ChannelCallbacks: Send + Sync + 'static {
    /// Returns the behaviour when a sub-buffer is full; constant for a channel.
    fn subbuf_start(&self) -> SubbufStart;

    /// Returns true if the next sub-buffer may be entered, for [`SubbufStart::WithHeader`]. Called
    /// in the writing context.
    fn may_enter(&self, buf: &BufRef<'_>, is_full: impl FnOnce() -> bool) -> bool;

    /// Returns true if all CPUs share a buffer.
    fn is_global(&self) -> bool;

    /// Returns the permissions of the files.
    fn permissions(&self) -> u16;

    /// Returns the current name for a new file with the final name `name`.
    fn current_name(&self, name: &CStr) -> Result<CString>;

    /// Keeps the file of a buffer, which was made in `dir`, with the final name `name`.
    fn file_created(&self, dir: &DirRef, name: &CStr, file: CFile, buf: BufRef<'static>) -> Result;

    /// Removes the file of a buffer.
    fn file_removing(&self, buf: BufRef<'static>);
}

/// An open channel of the C interface. Closed when dropped.
///
/// # Invariants
///
/// The pointer was returned by `relay_open()`, with `state` as its private data and files in `dir`.
pub(crate) struct Handle<C: ChannelCallbacks> {
    chan: NonNull<bindings::rchan>,
    /// Set while a record is being written on this CPU.
    writing: PerCpuFlag,
    // Dropped after the channel has been closed, as is the next.
    _state: ARef<Shared<C>>,
    _dir: Arc<Dir>,
}

// SAFETY: A channel may be closed by any task; the state is `Send` and `Sync` by the bounds of
// `ChannelCallbacks`.
unsafe impl<C: ChannelCallbacks> Send for Handle<C> {}
// SAFETY: The functions of the C interface that shared references call may be called by several
// CPUs at once, and `append()` writes only data of the CPU that calls it.
unsafe impl<C: ChannelCallbacks> Sync for Handle<C> {}

impl<C: ChannelCallbacks> Handle<C> {
    /// Opens a channel with files in `dir`; its callbacks get `state`.
    ///
    /// Errors: -EINTR if the task is being killed, else -ENOMEM, as `relay_open()` returns no error
    /// number.
    pub(crate) fn open(
        dir: Arc<Dir>,
        base: &CStr,
        sizes: (usize, usize),
        state: ARef<Shared<C>>,
    ) -> Result<Self> {
        let writing = PerCpuFlag::new()?;
        let private = core::ptr::from_ref::<C>(&state).cast_mut().cast();
        // SAFETY: The callbacks are constants; the name is copied; the directory and the state,
        // which has the type that the callbacks expect as private data, are kept by the returned
        // handle until the channel has been closed.
        let chan = unsafe {
            bindings::relay_open(
                base.as_char_ptr(),
                dir.as_ptr(),
                sizes.0,
                sizes.1,
                Table::<C>::of(state.subbuf_start()),
                private,
            )
        };
        let Some(chan) = NonNull::new(chan) else {
            return Err(if is_being_killed() { EINTR } else { ENOMEM });
        };
        // INVARIANT: Just opened.
        Ok(Self {
            chan,
            writing,
            _state: state,
            _dir: dir,
        })
    }

    /// Begins a record on this CPU; returns `None` if this interrupts another one.
    #[inline(always)]
    pub(crate) fn enter<'a>(&'a self, irqs: &'a IrqsOff) -> Option<PerCpuEntered<'a>> {
        self.writing.enter(irqs)
    }

    /// Returns the buffer of this CPU.
    #[inline]
    pub(crate) fn this_buf(&self, _irqs: &IrqsOff) -> Option<BufRef<'_>> {
        // SAFETY: By the type invariant the channel is open, with an array of slots for all CPUs,
        // which the engine fills with single stores. With interrupts off the CPU stays the same.
        let buf = unsafe { load_this_cpu((*self.chan.as_ptr()).buf) };
        // SAFETY: The channel is open as long as `self` is borrowed, and keeps the buffers in its
        // slots.
        NonNull::new(buf).map(|buf| unsafe { BufRef::new(buf) })
    }

    /// Writes a record to the current sub-buffer of this CPU's buffer. Returns false and writes
    /// nothing if there is no room for it, or another record is being written.
    #[inline]
    pub(crate) fn append(&self, data: &[u8], irqs: &IrqsOff) -> bool {
        let Some(_writing) = self.enter(irqs) else {
            return false;
        };
        let Some(buf) = self.this_buf(irqs) else {
            return false;
        };
        let buf = buf.as_ptr();
        // SAFETY: By the type invariants channel and buffer are valid; the size does not change,
        // and the rest is accessed with single loads and stores.
        let (size, offset, start) = unsafe {
            (
                (*self.chan.as_ptr()).subbuf_size,
                shared_word::load(&raw const (*buf).offset),
                shared_word::load(&raw const (*buf).data).cast::<u8>(),
            )
        };
        // Cannot overflow: a slice is shorter than half of the address space, an offset than 4 GiB.
        let end = offset.wrapping_add(data.len());
        if end > size {
            return false;
        }
        // SAFETY: The bytes after the offset, up to the size, belong to the next writer on this
        // CPU, which is this function, as it has entered, with interrupts off. User space may only
        // read the memory, through its own mapping. The offset is stored with release: a reader
        // that sees it sees the record.
        unsafe {
            shared_word::copy(start.add(offset), data.as_ptr(), data.len());
            shared_word::store_release(&raw mut (*buf).offset, end);
        }
        true
    }

    /// Returns the buffer of any CPU, if it has one.
    pub(crate) fn buf(&self, cpu: CpuId) -> Option<BufRef<'_>> {
        // SAFETY: By the type invariant the channel is open, with a slot for each possible CPU, as
        // a `CpuId` is; slots are read and written with single loads and stores.
        let slot = unsafe {
            let slots = (*self.chan.as_ptr()).buf.cast();
            Atomic::from_ptr(bindings::ferro_per_cpu_ptr(slots, cpu.get()))
        };
        let buf = NonNull::new(slot.load(Acquire).cast());
        // SAFETY: The channel is open as long as `self` is borrowed, and keeps the buffers in its
        // slots.
        buf.map(|buf| unsafe { BufRef::new(buf) })
    }

    /// Calls `relay_flush()`.
    pub(crate) fn flush(&self) {
        // SAFETY: By the type invariant the channel is open, and it is not closed while `self` is
        // borrowed.
        unsafe { bindings::relay_flush(self.chan.as_ptr()) };
    }

    /// Calls `relay_reset()`.
    pub(crate) fn reset(&mut self) {
        // SAFETY: By the type invariant the channel is open; `self` is borrowed mutably, so there
        // is no writer.
        unsafe { bindings::relay_reset(self.chan.as_ptr()) };
    }

    /// Returns how often no sub-buffer was free, and the number of records that were too large.
    pub(crate) fn stats(&self) -> (usize, usize) {
        let stats = |flag: u32| {
            // SAFETY: By the type invariant the channel is open, and it is not closed while `self`
            // is borrowed.
            unsafe { bindings::relay_stats(self.chan.as_ptr(), flag.try_into().unwrap_or(0)) }
        };
        (
            stats(bindings::RELAY_STATS_BUF_FULL),
            stats(bindings::RELAY_STATS_WRT_BIG),
        )
    }
}

impl<C: ChannelCallbacks> Drop for Handle<C> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the channel is open; this is dropped once, and there is no
        // other reference.
        unsafe { bindings::relay_close(self.chan.as_ptr()) };
    }
}

/// Callbacks of channels with a `C` as private data.
struct Table<C>(PhantomData<C>);

impl<C: ChannelCallbacks> Table<C> {
    const IF_FREE: bindings::rchan_callbacks = bindings::rchan_callbacks {
        subbuf_start: None,
        create_buf_file: Some(create_buf_file::<C>),
        remove_buf_file: Some(remove_buf_file::<C>),
    };

    const ALWAYS: bindings::rchan_callbacks = bindings::rchan_callbacks {
        subbuf_start: Some(enter_always),
        ..Self::IF_FREE
    };

    const WITH_HEADER: bindings::rchan_callbacks = bindings::rchan_callbacks {
        subbuf_start: Some(enter_with_header::<C>),
        ..Self::IF_FREE
    };

    fn of(start: SubbufStart) -> &'static bindings::rchan_callbacks {
        match start {
            SubbufStart::IfFree => const { &Self::IF_FREE },
            SubbufStart::Always => const { &Self::ALWAYS },
            SubbufStart::WithHeader => const { &Self::WITH_HEADER },
        }
    }
}

/// # Safety
///
/// Called by the engine for a buffer of a channel that [`Handle::open`] opened for a `C`, on the
/// CPU that writes it or while there is no writer.
unsafe extern "C" fn enter_with_header<C: ChannelCallbacks>(
    buf: *mut bindings::rchan_buf,
    _subbuf: *mut c_void,
    prev: *mut c_void,
) -> c_int {
    let Some(buf) = NonNull::new(buf) else {
        return 0;
    };
    // SAFETY: By the rules of this function; the engine keeps the buffer and its channel during the
    // call.
    let (state, buf) = unsafe { (state_of::<C>(buf), BufRef::new(buf)) };
    if !prev.is_null() {
        // SAFETY: The engine passes the sub-buffer that it has completed, now or at an earlier try
        // to enter the next one, and the buffer has no other writer. By the rules of
        // `ChannelCallbacks` a sub-buffer is longer than a header.
        unsafe { buf.put_header(prev) };
    }
    let enters = state.may_enter(&buf, || buf.is_full());
    if enters {
        buf.reserve_header();
    }
    enters.into()
}

/// # Safety
///
/// None: its type is that of the callback.
unsafe extern "C" fn enter_always(
    _buf: *mut bindings::rchan_buf,
    _subbuf: *mut c_void,
    _prev: *mut c_void,
) -> c_int {
    1
}

/// Returns the state that [`Handle::open`] gave to the channel of `buf`.
///
/// # Safety
///
/// `buf` is a buffer of such a channel, for a `C`, and stays so during `'a`.
unsafe fn state_of<'a, C: ChannelCallbacks>(buf: NonNull<bindings::rchan_buf>) -> &'a C {
    // SAFETY: By the rules of this function; the state is kept until the channel has been closed,
    // after which the engine calls no callback.
    unsafe { &*(*(*buf.as_ptr()).chan).private_data.cast::<C>() }
}

/// # Safety
///
/// Called by the engine for a buffer of a channel that [`Handle::open`] opened for a `C`.
unsafe extern "C" fn create_buf_file<C: ChannelCallbacks>(
    filename: *const c_char,
    parent: *mut bindings::dentry,
    _mode: bindings::umode_t,
    buf: *mut bindings::rchan_buf,
    is_global: *mut c_int,
) -> *mut bindings::dentry {
    let Some(buf) = NonNull::new(buf) else {
        return EINVAL.to_ptr();
    };
    // SAFETY: By the rules of the callback the engine passes a buffer of the channel, a string and
    // a place for the answer.
    let (state, name) = unsafe {
        let state = state_of::<C>(buf);
        *is_global = state.is_global().into();
        (state, CStr::from_char_ptr(filename))
    };
    let current_name = match state.current_name(name) {
        Ok(current_name) => current_name,
        Err(e) => return e.to_ptr(),
    };
    // SAFETY: The engine passes the directory that `Handle::open()` got, which the handle keeps.
    let dir = unsafe { DirRef::from_raw(parent) };
    // SAFETY: The file has relay's operations, and its data is the buffer, as they require; the
    // engine keeps it until `remove_buf_file()` has returned. The operations hold the buffer by its
    // count, so they need no protection against removal.
    let file = unsafe {
        dir.c_file(
            &current_name,
            state.permissions(),
            file_operations(),
            buf.as_ptr().cast(),
        )
    };
    let file = match file {
        Ok(file) => file,
        Err(e) => return e.to_ptr(),
    };
    let dentry = file.as_ptr();
    // SAFETY: The engine keeps the buffer until `remove_buf_file()` has returned for its file, and
    // by the rules of `ChannelCallbacks` this reference is not used after that. If `file_created()`
    // fails, it has kept nothing.
    match state.file_created(&dir, name, file, unsafe { BufRef::new(buf) }) {
        Ok(()) => dentry,
        Err(e) => e.to_ptr(),
    }
}

/// Returns the operations of a buffer's file. Context: process.
fn file_operations() -> *const bindings::file_operations {
    #[cfg(CONFIG_RELAY)]
    // SAFETY: No requirement but the context.
    return unsafe { bindings::ferro_relay_file_operations() };
    #[cfg(not(CONFIG_RELAY))]
    return &raw const bindings::relay_file_operations;
}

/// # Safety
///
/// Called by the engine for a file that [`create_buf_file`] made, for the same `C`.
unsafe extern "C" fn remove_buf_file<C: ChannelCallbacks>(dentry: *mut bindings::dentry) -> c_int {
    // SAFETY: The file was made by `create_buf_file()`, and its data is the buffer, which the
    // engine still has.
    unsafe {
        if let Some(buf) = NonNull::new((*(*dentry).d_inode).i_private.cast()) {
            state_of::<C>(buf).file_removing(BufRef::new(buf));
        }
    }
    0
}
