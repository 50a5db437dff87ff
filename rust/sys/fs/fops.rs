// SPDX-License-Identifier: GPL-2.0

//! Files with operations in Rust: read, write, poll, mmap, and splice (`splice.rs`).
//!
//! Contexts: process; a page fault: any code that accesses user memory.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bindings;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::uaccess::UserPtr;
use kernel::ThisModule;

use crate::fs::splice::PipeDst;
use crate::fs::uaccess::UserDst;
use crate::fs::uaccess::UserSrc;
use crate::mm::pages::PageBuf;
use crate::mm::pages::PageRef;
use crate::sync::refcounted::Shared;
use crate::sync::wait::WaitQueue;

/// Events of `poll()`; the values of `<linux/eventpoll.h>`.
pub mod events {
    use crate::bindings;

    /// There is data.
    pub const IN: u32 = bindings::POLLIN;
    /// There is normal data.
    pub const RDNORM: u32 = bindings::POLLRDNORM;
    /// Something is wrong.
    pub const ERR: u32 = bindings::POLLERR;
    /// The other side has hung up.
    pub const HUP: u32 = bindings::POLLHUP;
}

/// File operations of an object.
///
/// An open file has a reference to its object, so the object outlives the file and its mappings.
pub trait FileOps: AlwaysRefCounted + Send + Sync + Sized + 'static {
    /// True if `pread()` may read from a position; a stream refuses it. `lseek()` fails in either
    /// case.
    const SEEKABLE: bool = false;

    /// True if the file can be mapped; `mmap()` fails with -ENODEV otherwise.
    const MAPPABLE: bool = false;

    /// True if operations in progress, and those of open files, continue when the file is removed.
    /// Otherwise the removal waits for operations in progress, and later ones fail. An operation
    /// that removes its own file does not wait: a work item removes it.
    const OUTLIVES: bool = Self::MAPPABLE;

    /// True if `splice()` and `sendfile()` take data from the file; they fail with -EINVAL
    /// otherwise.
    const SPLICEABLE: bool = false;

    /// Returns the object that a file gets at open() instead of this one, if any. `for_reading` is
    /// false if the file is open for writing only.
    fn opened(&self, _for_reading: bool) -> Result<Option<ARef<Self>>> {
        Ok(None)
    }

    /// Copies data out; `to` counts the copied bytes.
    fn read(&self, to: &mut UserDst) -> Result;

    /// Returns the memory that [`PipeDst::lend`] lends. It is part of the object, so it lives as
    /// long as the file.
    fn memory(&self) -> Option<&PageBuf> {
        None
    }

    /// Lends data to a pipe, with [`PipeDst::lend`].
    fn splice(&self, _to: &mut PipeDst<'_>) -> Result {
        Err(EINVAL)
    }

    /// Takes back a loan of [`PipeDst::lend`] that is in no pipe. `token` identifies it. Context:
    /// process; a pipe may be locked.
    fn give_back(&self, _token: usize) {}

    /// Takes a value that is exactly as long as the write.
    fn write(&self, _from: &UserSrc) -> Result {
        Err(EINVAL)
    }

    /// Returns the queue of pollers. The queue is part of the object, so it lives as long as the
    /// file.
    fn wait_queue(&self) -> Option<&WaitQueue> {
        None
    }

    /// Returns the pending [`events`]; called once the poller is in the queue. A file without a
    /// queue is always readable.
    fn events(&self) -> u32 {
        events::IN | events::RDNORM
    }

    /// Returns the size of the file, if its contents have fixed positions; otherwise 0.
    fn size(&self) -> usize {
        0
    }

    /// Allows or refuses a mapping. A mapping that is read-only now stays read-only.
    fn mmap(&self, _request: &MmapRequest) -> Result {
        Err(ENODEV)
    }

    /// Returns the page at an index of a mapping that [`FileOps::mmap`] allowed.
    fn page(&self, _index: usize) -> Option<PageRef> {
        None
    }
}

/// A small file with a value, for [`Shared`] objects.
pub trait NodeOps: Send + Sync + Sized + 'static {
    /// As [`FileOps::OUTLIVES`].
    const OUTLIVES: bool = false;

    /// Returns the value that a file gets at open() instead of this one, if any. A value that can
    /// change between two reads needs a snapshot for readers that take it piece by piece.
    /// `for_reading` is false if the file is open for writing only.
    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        Ok(None)
    }

    /// Copies the value out, with [`UserDst::copy_at_position`].
    fn read(&self, to: &mut UserDst) -> Result;

    /// Takes a value. Errors: -EINVAL for a read-only file.
    fn write(&self, _from: &UserSrc) -> Result {
        Err(EINVAL)
    }
}

impl<T: NodeOps> FileOps for Shared<T> {
    const SEEKABLE: bool = true;
    const OUTLIVES: bool = T::OUTLIVES;

    fn opened(&self, for_reading: bool) -> Result<Option<ARef<Self>>> {
        T::snapshot(self, for_reading)?
            .map(|value| Shared::new(Ok(value)))
            .transpose()
    }

    fn read(&self, to: &mut UserDst) -> Result {
        T::read(self, to)
    }

    fn write(&self, from: &UserSrc) -> Result {
        T::write(self, from)
    }
}

/// Request of an `mmap()`.
pub struct MmapRequest {
    /// Bytes to map.
    pub size: usize,
    /// First page of the file to map.
    pub page_offset: usize,
    /// True if the mapping is to be writable.
    pub writable: bool,
}

// RUST-KERNEL: `kernel::miscdevice` has the only file operations; ours until other files can have
// some.
/// `struct file_operations` for objects of one type.
///
/// # Invariants
///
/// `i_private` of each inode with these operations points to a live `T` whenever the file is
/// opened. [`DirRef::file`](crate::fs::debugfs::DirRef::file) ensures that; so does all other code
/// that gives the table to C.
#[repr(transparent)]
pub struct FileTable<T>(bindings::file_operations, PhantomData<fn(T)>);

// SAFETY: The table is constant.
unsafe impl<T> Sync for FileTable<T> {}

impl<T: FileOps> FileTable<T> {
    /// Makes the table of `T`, in the code of `owner`, which stays loaded while a file is open.
    ///
    /// Making a file with it fails with -EINVAL if the code belongs to another module.
    pub const fn new(owner: &ThisModule) -> Self {
        Self::with_owner(owner.as_ptr())
    }

    /// Makes the table of `T` for code of the image. In a module, making a file with it fails, as
    /// with a wrong owner.
    #[cfg(not(MODULE))]
    pub const fn built_in() -> Self {
        Self::with_owner(core::ptr::null_mut())
    }

    /// Makes the table of `T` for code of the image, which on this kernel is in the module
    /// `ferrotrace_core`.
    #[cfg(MODULE)]
    pub const fn built_in() -> Self {
        extern "C" {
            static __this_module: bindings::module;
        }
        Self::with_owner((&raw const __this_module).cast_mut())
    }

    const fn with_owner(owner: *mut bindings::module) -> Self {
        let mut table: bindings::file_operations = pin_init::zeroed();
        table.owner = owner;
        table.open = Some(open::<T>);
        table.release = Some(release::<T>);
        table.read = Some(read::<T>);
        table.write = Some(write::<T>);
        table.poll = Some(poll::<T>);
        if T::SEEKABLE {
            table.llseek = Some(bindings::default_llseek);
        }
        if T::SPLICEABLE {
            table.splice_read = Some(splice_read::<T>);
            table.llseek = Some(no_llseek);
        }
        if T::MAPPABLE {
            table.mmap_prepare = Some(mmap_prepare::<T>);
        }
        Self(table, PhantomData)
    }

    /// Returns the module that stays loaded while a file is open; NULL for the kernel.
    pub(crate) fn owner(&self) -> *mut bindings::module {
        self.0.owner
    }

    /// Returns the table for C code.
    pub const fn as_ptr(&self) -> *const bindings::file_operations {
        &raw const self.0
    }
}

/// # Safety
///
/// `file` is a file opened by [`open::<T>`], and the result is not used after its release.
pub(crate) unsafe fn object<'a, T: FileOps>(file: *const bindings::file) -> &'a T {
    // SAFETY: `open()` has stored a counted pointer there.
    unsafe { &*(*file).private_data.cast::<T>() }
}

/// Tells the object of a file that a loan has ended.
///
/// # Safety
///
/// `file` is an open file with operations of `T`.
unsafe fn give_back<T: FileOps>(file: NonNull<bindings::file>, token: usize) {
    // SAFETY: By the rules of this function.
    unsafe { object::<T>(file.as_ptr()) }.give_back(token);
}

/// Runs an operation; `is_awaited` is true if the removal of the file waits for it.
///
/// Errors: as for the operation; -EIO if it is awaited and the file has been removed.
///
/// # Safety
///
/// `file` is open, or being opened, until this returns.
unsafe fn operate<R>(
    file: *const bindings::file,
    is_awaited: bool,
    operation: impl FnOnce() -> Result<R>,
) -> Result<R> {
    if !is_awaited {
        return operation();
    }
    let mut mark = bindings::ferro_file_operation::default();
    // SAFETY: The mark does not move until it is removed below; `file` is open by the rules of this
    // function.
    if !unsafe { bindings::ferro_file_enter(&raw mut mark, file) } {
        return Err(EIO);
    }
    let result = operation();
    // SAFETY: This is the mark from above.
    unsafe { bindings::ferro_file_leave(&raw mut mark) };
    result
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`].
unsafe extern "C" fn open<T: FileOps>(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: By the invariant of `FileTable` the inode has a live object.
    let object: ARef<T> = unsafe { &*(*inode).i_private.cast::<T>() }.into();
    // SAFETY: The VFS passes a file that is being opened.
    let for_reading = unsafe { bindings::ferro_file_readable(file) };
    // Both filesystems protect each file while it is being opened.
    // SAFETY: The VFS passes a file that is being opened.
    let object = match unsafe { operate(file, true, || object.opened(for_reading)) } {
        Ok(other) => other.unwrap_or(object),
        Err(error) => return error.to_errno(),
    };
    // SAFETY: The file is being opened; no other code uses the field.
    unsafe { (*file).private_data = ARef::into_raw(object).as_ptr().cast() };
    if T::SEEKABLE {
        return 0;
    }
    if T::SPLICEABLE {
        // sendfile() needs a file with positions; `no_llseek()` refuses them otherwise.
        // SAFETY: The file is being opened.
        unsafe { bindings::ferro_file_no_positions(file) };
        return 0;
    }
    // SAFETY: Both pointers are the caller's.
    unsafe { bindings::nonseekable_open(inode, file) }
}

/// # Safety
///
/// None; called by the VFS.
unsafe extern "C" fn no_llseek(
    _file: *mut bindings::file,
    _offset: bindings::loff_t,
    _whence: c_int,
) -> bindings::loff_t {
    ESPIPE.to_errno().into()
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`].
unsafe extern "C" fn release<T: FileOps>(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: `open()` has stored the pointer with its reference, which this takes back.
    unsafe {
        drop(ARef::from_raw(NonNull::new_unchecked(
            (*file).private_data.cast::<T>(),
        )))
    };
    0
}

/// Returns the result of a failed `read()` or `write()`.
fn errno(e: Error) -> isize {
    isize::try_from(e.to_errno()).unwrap_or(isize::MIN)
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`].
unsafe extern "C" fn read<T: FileOps>(
    file: *mut bindings::file,
    to: *mut c_char,
    count: usize,
    position: *mut bindings::loff_t,
) -> isize {
    // SAFETY: The VFS passes a valid position.
    let Ok(start) = usize::try_from(unsafe { *position }) else {
        return errno(EINVAL);
    };
    let mut dst = UserDst::new(UserPtr::from_ptr(to.cast()), count, start);
    // SAFETY: The file is open.
    let object = unsafe { object::<T>(file) };
    // SAFETY: The file is open.
    let result = unsafe { operate(file, !T::OUTLIVES, || object.read(&mut dst)) };
    match (result, isize::try_from(dst.done())) {
        (Err(e), _) if dst.done() == 0 => errno(e),
        (_, Ok(done)) => {
            // A read that returned nothing does not change the position.
            let end = dst.end().unwrap_or(start.saturating_add(dst.done()));
            // SAFETY: The VFS passes a pointer to the position of this call, which no other code
            // uses during it.
            unsafe { *position = bindings::loff_t::try_from(end).unwrap_or(bindings::loff_t::MAX) };
            done
        }
        // The VFS limits a read to less than this.
        (_, Err(_)) => errno(EINVAL),
    }
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`], with the pipe locked.
unsafe extern "C" fn splice_read<T: FileOps>(
    file: *mut bindings::file,
    position: *mut bindings::loff_t,
    pipe: *mut bindings::pipe_inode_info,
    len: usize,
    _flags: u32,
) -> isize {
    // SAFETY: The VFS passes a valid position.
    let start = usize::try_from(unsafe { *position });
    let (Ok(start), Some(counted)) = (start, NonNull::new(file)) else {
        return errno(EINVAL);
    };
    // SAFETY: The file is open.
    let object = unsafe { object::<T>(file) };
    // SAFETY: The file is open, with our operations, for this object; the pipe is locked.
    let mut dst = unsafe { PipeDst::new(object.memory(), give_back::<T>, pipe, counted, len) };
    let result = object.splice(&mut dst);
    match (result, isize::try_from(dst.done())) {
        (Err(e), _) if dst.done() == 0 => errno(e),
        (_, Ok(done)) => {
            let end = dst.end().unwrap_or(start.saturating_add(dst.done()));
            // SAFETY: The VFS passes a pointer to the position of this splice, which no other code
            // uses during it.
            unsafe { *position = bindings::loff_t::try_from(end).unwrap_or(bindings::loff_t::MAX) };
            done
        }
        // The VFS limits a splice to less than this.
        (_, Err(_)) => errno(EINVAL),
    }
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`].
unsafe extern "C" fn write<T: FileOps>(
    file: *mut bindings::file,
    from: *const c_char,
    count: usize,
    _position: *mut bindings::loff_t,
) -> isize {
    let src = UserSrc::new(UserPtr::from_ptr(from.cast_mut().cast()), count);
    // SAFETY: The file is open.
    let object = unsafe { object::<T>(file) };
    // SAFETY: The file is open.
    match unsafe { operate(file, !T::OUTLIVES, || object.write(&src)) } {
        Ok(()) => isize::try_from(src.taken()).unwrap_or(isize::MAX),
        Err(e) => errno(e),
    }
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`].
unsafe extern "C" fn poll<T: FileOps>(
    file: *mut bindings::file,
    table: *mut bindings::poll_table,
) -> bindings::__poll_t {
    // SAFETY: The file is open.
    let object = unsafe { object::<T>(file) };
    if let Some(queue) = object.wait_queue() {
        // SAFETY: The pointers belong to the call in progress. The poller leaves the queue before
        // it drops the file, and the file keeps the object with its queue.
        unsafe { bindings::poll_wait(file, queue.as_ptr(), table) };
    }
    let events = object.events();
    // SAFETY: The file of the call in progress.
    if unsafe { bindings::ferro_file_readable(file) } {
        events
    } else {
        events & !(events::IN | events::RDNORM)
    }
}

/// # Safety
///
/// Called by the VFS for a file with a [`FileTable<T>`].
unsafe extern "C" fn mmap_prepare<T: FileOps>(desc: *mut bindings::vm_area_desc) -> c_int {
    // SAFETY: The caller passes a mapping in the making, of an open file.
    let (request, object) = unsafe {
        (
            MmapRequest {
                size: bindings::ferro_mmap_size(desc),
                page_offset: (*desc).pgoff,
                writable: bindings::ferro_mmap_writable(desc),
            },
            object::<T>((*desc).file),
        )
    };
    if let Err(e) = object.mmap(&request) {
        return e.to_errno();
    }
    // SAFETY: The caller owns the description until the mapping is made from it, and may set its
    // operations now. They find the object in `private_data`: the mapping holds the file, and the
    // file the object.
    unsafe {
        bindings::ferro_mmap_fix(desc, request.writable);
        (*desc).vm_ops = const { &vm_ops::<T>() };
        (*desc).private_data = core::ptr::from_ref(object).cast_mut().cast();
    }
    0
}

const fn vm_ops<T: FileOps>() -> bindings::vm_operations_struct {
    let mut ops: bindings::vm_operations_struct = pin_init::zeroed();
    ops.fault = Some(fault::<T>);
    ops
}

/// # Safety
///
/// Called for a fault in a mapping that [`mmap_prepare::<T>`] set up.
unsafe extern "C" fn fault<T: FileOps>(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: `mmap_prepare()` has stored the object in the mapping, whose file keeps it.
    let (object, index) = unsafe {
        let inner = &(*vmf).__bindgen_anon_1;
        (&*(*inner.vma).vm_private_data.cast::<T>(), inner.pgoff)
    };
    match object.page(index) {
        Some(page) => {
            // SAFETY: The caller waits for the page, and takes over the reference.
            unsafe { (*vmf).page = page.into_raw() };
            0
        }
        None => bindings::vm_fault_reason_VM_FAULT_SIGBUS,
    }
}
