// SPDX-License-Identifier: GPL-2.0

//! Calls to the client's callbacks.
//!
//! Contexts: [`Client::subbuf_start`] in the writing context; the others in process context.

use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::fs::dentry::Dentry;
use kernel::error::from_err_ptr;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

use super::abi::Rchan;

/// A buffer that C code sees.
///
/// # Safety
///
/// The pointer refers to a `struct rchan_buf` that this object starts with, for as long as the
/// object exists.
pub(crate) unsafe trait CBuf {
    /// Returns the pointer for C code.
    fn as_raw(&self) -> *mut bindings::rchan_buf;
}

/// The client's callbacks.
///
/// # Invariants
///
/// The functions keep the rules of `struct rchan_callbacks` and stay callable until the channel has
/// been closed.
pub(crate) struct Client {
    subbuf_start: SubbufStart,
    create_buf_file: CreateBufFile,
    remove_buf_file: RemoveBufFile,
}

type SubbufStart =
    Option<unsafe extern "C" fn(*mut bindings::rchan_buf, *mut c_void, *mut c_void) -> c_int>;
type CreateBufFile = unsafe extern "C" fn(
    *const c_char,
    *mut bindings::dentry,
    bindings::umode_t,
    *mut bindings::rchan_buf,
    *mut c_int,
) -> *mut bindings::dentry;
type RemoveBufFile = unsafe extern "C" fn(*mut bindings::dentry) -> c_int;

/// Permissions that a client is asked to give its files.
const FILE_MODE: bindings::umode_t = 0o400;

impl Client {
    /// Returns the callbacks, or `None` if a mandatory one is missing.
    ///
    /// # Safety
    ///
    /// `callbacks` is NULL or valid, and keeps the invariants of the type.
    pub(crate) unsafe fn new(callbacks: *const bindings::rchan_callbacks) -> Option<Self> {
        // SAFETY: By the rules of this function.
        let callbacks = unsafe { callbacks.as_ref() }?;
        // INVARIANT: By the rules of this function.
        Some(Self {
            subbuf_start: callbacks.subbuf_start,
            create_buf_file: callbacks.create_buf_file?,
            remove_buf_file: callbacks.remove_buf_file?,
        })
    }

    /// Asks the client if a sub-buffer may be entered; returns `None` if the client has no such
    /// callback.
    pub(crate) fn subbuf_start(
        &self,
        buf: &impl CBuf,
        new: *mut u8,
        prev: *mut u8,
    ) -> Option<bool> {
        let subbuf_start = self.subbuf_start?;
        // SAFETY: By the type invariant it is callable and keeps the rules; the buffer is borrowed.
        // The client accesses the other two pointers only if they are sub-buffers of this buffer;
        // otherwise it only compares them or passes them on.
        Some(unsafe { subbuf_start(buf.as_raw(), new.cast(), prev.cast()) } != 0)
    }

    /// Calls the client to make the file `name`, which ends with NUL, for a buffer.
    ///
    /// Without a name the call only asks if the channel is global, and no file is made. Errors: the
    /// client's, -EINVAL if the client returned NULL.
    pub(crate) fn create_buf_file(
        &self,
        channel: &Rchan,
        buf: &impl CBuf,
        name: Option<&[u8]>,
    ) -> Result<Option<Dentry>> {
        let parent = name.map_or(core::ptr::null_mut(), |_| channel.parent.load(Relaxed));
        // SAFETY: By the type invariant it is callable and keeps the rules; the name is NULL or a
        // string, as it ends with NUL; the buffer is borrowed; `is_global` is an atomic, which may
        // be written.
        let dentry = unsafe {
            (self.create_buf_file)(
                name.map_or(core::ptr::null(), <[u8]>::as_ptr),
                parent,
                FILE_MODE,
                buf.as_raw(),
                channel.is_global.as_ptr(),
            )
        };
        let dentry = NonNull::new(from_err_ptr(dentry)?).ok_or(EINVAL)?;
        // SAFETY: By the rules of the callback this is the dentry of the file it has made.
        Ok(name.map(|_| unsafe { Dentry::get(dentry) }))
    }

    /// Calls the client to remove the file of a buffer. The engine holds a reference to the dentry,
    /// so this is safe even if the file was removed with its directory.
    pub(crate) fn remove_buf_file(&self, dentry: Option<&Dentry>) {
        let dentry = dentry.map_or(core::ptr::null_mut(), Dentry::as_ptr);
        // SAFETY: By the type invariant it is callable and keeps the rules; the dentry is NULL or
        // has a reference during the call.
        unsafe { (self.remove_buf_file)(dentry) };
    }
}
