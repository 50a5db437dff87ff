// SPDX-License-Identifier: GPL-2.0

//! C functions of `<linux/ferrotrace_relay.h>`.
//!
//! Contexts: as the header says.

use core::mem::offset_of;
use core::ptr::NonNull;

use ferro_fast_relay_core::persistent::checksum::Reason;
use ferro_fast_relay_core::ring::Header;
use ferro_fast_relay_core::ring::HEADER_BYTES;
use ferro_fast_relay_core::ring::TIMED;
use ferro_fast_relay_core::ring::TIME_BYTES;
use ferro_sys::bindings;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::fs::debugfs::DirRef;
use kernel::ffi::c_char;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::str::CString;

use crate::channel_state::ChannelState;
use crate::debugfs::Files;
use crate::debugfs::Parent;
use crate::persistent;
use crate::record::Dropped;
use crate::registry;

/// Permissions of the files of C clients.
const FILE_MODE: u16 = 0o600;

static_assert!(offset_of!(ChannelState, slots) == 0);

/// Converts a client's channel pointer.
///
/// # Safety
///
/// `chan` was returned by `__relay_fast_open()` and has not been closed since.
unsafe fn channel<'a>(chan: *const bindings::relay_fast) -> &'a ChannelState {
    // SAFETY: The caller guarantees that `__relay_fast_open()` has returned the pointer, which is
    // to the structure that a `ChannelState` starts with. The caller also guarantees that the
    // channel is open: until it is closed, the registry keeps the `ChannelState`.
    unsafe { &*chan.cast::<ChannelState>() }
}

/// Returns the directory and base name for files that a client calls `name` in `parent`.
///
/// Errors: -EINVAL.
fn directory(name: &CStr, parent: Option<DirRef>) -> Result<(Parent, &str)> {
    let name = name.to_str().map_err(|_| EINVAL)?;
    match (name.split_once('/'), parent) {
        (None, parent) => Ok((Parent::Client(parent.unwrap_or(DirRef::ROOT)), name)),
        (Some((dir, base)), None) => Ok((Parent::to_make(dir)?, base)),
        (Some(_), Some(_)) => Err(EINVAL),
    }
}

/// Opens a channel. It is closed when its owner is unloaded, if not before.
///
/// # Safety
///
/// `base_filename`, `format` and `reserved` are NULL or strings; `parent` is NULL or a directory of
/// debugfs.
#[no_mangle]
unsafe extern "C" fn __relay_fast_open(
    owner: *mut bindings::module,
    base_filename: *const c_char,
    parent: *mut bindings::dentry,
    subbuf_size: usize,
    n_subbufs: usize,
    flags: c_uint,
    format: *const c_char,
    reserved: *const c_char,
) -> *mut bindings::relay_fast {
    // SAFETY: The caller guarantees that a pointer other than NULL is a string; it is used during
    // this call only.
    let string =
        |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_char_ptr(text) });
    // SAFETY: The caller guarantees that a pointer other than NULL is a directory of debugfs, which
    // it keeps during this call.
    let parent = (!parent.is_null()).then(|| unsafe { DirRef::from_raw(parent) });
    let opened = (|| {
        let name = string(base_filename).ok_or(EINVAL)?;
        let (parent, base) = directory(name, parent)?;
        let format = string(format).map(CString::try_from).transpose()?;
        let overwrite = flags == bindings::RELAY_FAST_OVERWRITE;
        if flags != 0 && !overwrite {
            return Err(EINVAL);
        }
        let text = format.as_ref().map_or(&[][..], |format| format.to_bytes());
        let (ring, claim) = persistent::allocate(
            string(reserved),
            name,
            subbuf_size,
            n_subbufs,
            overwrite,
            text,
        )?;
        // The address identifies the owner: a `struct module` is data of the module that it
        // describes.
        let state = ChannelState::new(
            ring,
            claim,
            Files::new(parent, base, FILE_MODE, format)?,
            owner.addr(),
        )?;
        let pointer = &raw const **state;
        // The registry keeps it.
        registry::open(&state)?;
        Ok(pointer.cast_mut().cast())
    })();
    opened.unwrap_or_else(|e: Error| e.to_ptr())
}

/// Closes a channel.
///
/// # Safety
///
/// `chan` is NULL, an error, or not used afterwards.
#[no_mangle]
unsafe extern "C" fn relay_fast_close(chan: *mut bindings::relay_fast) {
    if kernel::error::from_err_ptr(chan).is_ok_and(|chan| !chan.is_null())
        && registry::close(chan.cast()).is_err()
    {
        pr_warn!("relay_fast_close() of a channel that is not open\n");
    }
}

/// Returns the number of lost records.
///
/// # Safety
///
/// `chan` is an open channel.
#[no_mangle]
unsafe extern "C" fn relay_fast_lost(chan: *const bindings::relay_fast) -> u64 {
    // SAFETY: The caller guarantees that the channel is open during this call.
    unsafe { channel(chan) }.lost()
}

/// Reserves a record that the inline function could not, and writes the time after the place of the
/// header if `timed`. Returns NULL if the record is lost.
///
/// # Safety
///
/// `chan` is an open channel, `bytes` has room for the time, and preemption is off until the record
/// has been committed.
#[no_mangle]
unsafe extern "C" fn relay_fast_reserve_slow(
    chan: *mut bindings::relay_fast,
    bytes: u64,
    timed: bool,
) -> *mut bindings::relay_fast_record {
    // SAFETY: The caller guarantees that the channel is open during this call.
    let channel = unsafe { channel(chan) };
    // Only the length in it matters: the client writes the header itself.
    let (overhead, flags) = match timed {
        true => (HEADER_BYTES + TIME_BYTES, TIMED),
        false => (HEADER_BYTES, 0),
    };
    let len = u32::try_from(bytes.saturating_sub(overhead)).unwrap_or(u32::MAX);
    let header = Header {
        len,
        kind: 0,
        flags,
    };
    match channel.reserve_slow(header, PreemptOff::new()) {
        Ok(open) => NonNull::as_ptr(open.leave_open()).cast(),
        Err(Dropped) => core::ptr::null_mut(),
    }
}

/// Returns the time for records.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn relay_fast_time() -> u64 {
    mono_fast_ns()
}

/// Seals the persistent channels when the kernel panics, restarts or halts; not after an oops,
/// which the kernel survives.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn relay_fast_dump(reason: c_uint) {
    match reason {
        bindings::kmsg_dump_reason_KMSG_DUMP_PANIC => persistent::dump(Reason::Panic),
        bindings::kmsg_dump_reason_KMSG_DUMP_EMERG
        | bindings::kmsg_dump_reason_KMSG_DUMP_SHUTDOWN => persistent::dump(Reason::Restart),
        _ => {}
    }
}

ferro_sys::declared_in_c!(
    __relay_fast_open,
    relay_fast_close,
    relay_fast_lost,
    relay_fast_reserve_slow,
    relay_fast_time,
    relay_fast_dump,
);
