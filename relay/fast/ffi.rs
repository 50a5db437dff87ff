// SPDX-License-Identifier: GPL-2.0

//! The C interface: the functions of `<linux/ferrotrace_relay.h>`.
//!
//! Contexts: as the header says.

use core::mem::offset_of;
use core::ptr::NonNull;

use ferro_core::ring::Header;
use ferro_core::ring::Ring;
use ferro_core::ring::HEADER_BYTES;
use ferro_core::ring::TIMED;
use ferro_core::ring::TIME_BYTES;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::cpu::irq_work::HasIrqWork;
use ferro_sys::cpu::irq_work::IrqWork;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::fops::FileOps;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::MmapRequest;
use ferro_sys::fs::fops::UserDst;
use ferro_sys::hook::Module;
use ferro_sys::impl_always_refcounted;
use ferro_sys::mm::pages::PageRef;
use ferro_sys::sync::counted::Counted;
use ferro_sys::sync::counted::Shared;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use ferro_sys::sync::wait::WaitQueue;
use kernel::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_uint;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use kernel::sync::Refcount;

use crate::buffer::Buffer;
use crate::channel::Files;
use crate::channel::Inner;
use crate::channel::Parent;
use crate::record::Dropped;
use crate::registry;
use crate::FastRelay;

/// Permissions of the files of C clients.
const FILE_MODE: u16 = 0o600;

static_assert!(offset_of!(Inner, slots) == 0);

// SAFETY: Instances are made by `Buffer::new()`, in a box with a count of 1.
unsafe impl Counted for Buffer {
    fn count(&self) -> &Refcount {
        &self.count
    }
}
impl_always_refcounted!(Buffer);

impl Buffer {
    /// The work that wakes readers.
    pub(crate) fn wake_work() -> impl PinInit<IrqWork> {
        // SAFETY: `Buffer::new()`, the only caller, initialises the field at `OFFSET` with it.
        unsafe { IrqWork::new::<Self>() }
    }
}

#[pinned_drop]
impl PinnedDrop for Buffer {
    fn drop(self: Pin<&mut Self>) {
        self.wake.sync();
    }
}

// SAFETY: The offset is that of the field, and `drop()` waits for the work, when nobody writes.
unsafe impl HasIrqWork for Buffer {
    const OFFSET: usize = offset_of!(Buffer, wake);

    fn run(&self) {
        self.readers.wake_all();
    }
}

// SAFETY: `Files` makes the files, with the buffer as their object.
unsafe impl FileOps for Buffer {
    const MAPPABLE: bool = true;

    fn read(&self, to: &mut UserDst) -> Result {
        self.read_to(to)
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.readers)
    }

    fn events(&self) -> u32 {
        self.poll_events()
    }

    fn size(&self) -> usize {
        self.memory().len()
    }

    fn mmap(&self, request: &MmapRequest) -> Result {
        self.check_mmap(request)
    }

    fn page(&self, index: usize) -> Option<PageRef> {
        self.page_at(index)
    }
}

/// The file operations of buffers.
pub(crate) static BUFFER_FILES: FileTable<Buffer> = FileTable::new(this_module::<FastRelay>());

/// Waits for the registry of open channels.
pub(crate) fn registry() -> StaticGuard<KVec<ARef<Shared<Inner>>>> {
    // SAFETY: The mutex is defined with `DEFINE_MUTEX()` and used here only.
    static REGISTRY: StaticMutex<KVec<ARef<Shared<Inner>>>> =
        unsafe { StaticMutex::new(&raw mut bindings::relay_fast_mutex, KVec::new()) };
    REGISTRY.lock()
}

/// The channel that a client passed.
///
/// # Safety
///
/// `chan` was returned by `__relay_fast_open()` and has not been closed since.
unsafe fn channel<'a>(chan: *const bindings::relay_fast) -> &'a Inner {
    // SAFETY: By the rules of this function; `Inner` starts with the structure.
    unsafe { &*chan.cast::<Inner>() }
}

/// Where files called `name` go that a client wants in `parent`, and how they are called there.
///
/// Errors: -EINVAL.
fn place(name: &CStr, parent: Option<DirRef>) -> Result<(Parent, &str)> {
    let name = name.to_str().map_err(|_| EINVAL)?;
    match (name.split_once('/'), parent) {
        (None, parent) => Ok((Parent::Client(parent.unwrap_or(DirRef::ROOT)), name)),
        (Some((dir, base)), None) => Ok((Parent::to_make(dir)?, base)),
        (Some(_), Some(_)) => Err(EINVAL),
    }
}

/// Opens a channel, which is closed when its owner goes, if not before.
///
/// # Safety
///
/// `base_filename` and `format` are NULL or strings; `parent` is NULL or a directory of debugfs.
#[export]
unsafe extern "C" fn __relay_fast_open(
    owner: *mut bindings::module,
    base_filename: *const c_char,
    parent: *mut bindings::dentry,
    subbuf_size: usize,
    n_subbufs: usize,
    flags: c_uint,
    format: *const c_char,
) -> *mut bindings::relay_fast {
    // SAFETY: By the rules of this function.
    let string =
        |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_char_ptr(text) });
    // SAFETY: By the rules of this function.
    let parent = (!parent.is_null()).then(|| unsafe { DirRef::from_raw(parent) });
    let opened = (|| {
        let (parent, base) = place(string(base_filename).ok_or(EINVAL)?, parent)?;
        let format = string(format).map(CString::try_from).transpose()?;
        let overwrite = flags == bindings::RELAY_FAST_OVERWRITE;
        if flags != 0 && !overwrite {
            return Err(EINVAL);
        }
        let ring = Ring::new(subbuf_size, n_subbufs, overwrite).map_err(|_| EINVAL)?;
        // The structure is data of the module that it describes.
        let inner = Inner::new(
            ring,
            Files::new(parent, base, FILE_MODE, format)?,
            owner.addr(),
        )?;
        let pointer = &raw const **inner;
        // The registry keeps it.
        registry::open(&inner)?;
        Ok(pointer.cast_mut().cast())
    })();
    opened.unwrap_or_else(|e: Error| e.to_ptr())
}

/// Has the channels closed that a module leaves when it goes.
///
/// Errors: those of registering an exit.
pub(crate) fn watch_modules() -> Result<Registered<ModuleEvent>> {
    let registered = Registered::<ModuleEvent>::builder(c"fast_relay")
        .pinned()
        .register(|_call, (module, state)| {
            let going = state == bindings::module_state_MODULE_STATE_GOING;
            if let (true, Some(module)) = (going, NonNull::new(module)) {
                // SAFETY: The hook passes a module that is there during the call.
                registry::module_goes(&unsafe { Module::new(module) });
            }
            Answer::Continue
        });
    Ok(registered?)
}

/// Closes a channel.
///
/// # Safety
///
/// `chan` is NULL, an error, or not used afterwards.
#[export]
unsafe extern "C" fn relay_fast_close(chan: *mut bindings::relay_fast) {
    if kernel::error::from_err_ptr(chan).is_ok_and(|chan| !chan.is_null())
        && registry::close(chan.cast()).is_err()
    {
        pr_warn!("relay_fast_close() of a channel that is not open\n");
    }
}

/// How many records could not be written.
///
/// # Safety
///
/// `chan` is an open channel.
#[export]
unsafe extern "C" fn relay_fast_lost(chan: *const bindings::relay_fast) -> u64 {
    // SAFETY: By the rules of this function.
    unsafe { channel(chan) }.lost()
}

/// Reserves what the inline function did not, and writes the time, if it is asked for, behind the place of
/// the header; NULL if the record is lost.
///
/// # Safety
///
/// `chan` is an open channel, `bytes` has room for the time, and preemption is off until the record has been
/// committed.
#[export]
unsafe extern "C" fn relay_fast_reserve_slow(
    chan: *mut bindings::relay_fast,
    bytes: u64,
    timed: bool,
) -> *mut bindings::relay_fast_record {
    // SAFETY: By the rules of this function.
    let channel = unsafe { channel(chan) };
    // Only its length counts: the client writes the header itself.
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

/// The time of records.
#[export]
extern "C" fn relay_fast_time() -> u64 {
    mono_fast_ns()
}
