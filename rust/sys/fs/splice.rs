// SPDX-License-Identifier: GPL-2.0

//! `splice()` and `sendfile()`: an object's pages in pipes, without a copy.
//!
//! A pipe buffer keeps the file that it came from open, and with it the object, its pages and its
//! module. It has no reference to the page of its own, so that [`PageBuf::is_shared`] tells who else
//! has: sockets keep pages beyond the pipe buffer.
//!
//! Contexts: process; the pipe is locked.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::error::to_result;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Refcount;

use crate::fs::fops::object;
use crate::fs::fops::FileOps;
use crate::mm::pages::PageBuf;

/// Where a `splice()` wants its data.
pub struct PipeDst<'a> {
    pipe: *mut bindings::pipe_inode_info,
    file: NonNull<bindings::file>,
    /// The object's own, which the file keeps.
    memory: Option<&'a PageBuf>,
    give_back: GiveBack,
    left: usize,
    done: usize,
    end: Option<usize>,
}

/// Tells the object of a file that a loan has come back.
type GiveBack = unsafe fn(NonNull<bindings::file>, usize);

/// What a pipe buffer's `private` points to: a run of bytes that is in pipes.
struct Loan {
    /// Pipe buffers with a part of it.
    buffers: Refcount,
    /// Counted.
    file: NonNull<bindings::file>,
    give_back: GiveBack,
    token: usize,
}

impl Loan {
    /// Gives up a count.
    ///
    /// # Safety
    ///
    /// The caller owns it.
    unsafe fn put(this: NonNull<Self>) {
        // SAFETY: The count keeps the loan.
        if !unsafe { this.as_ref() }.buffers.dec_and_test() {
            return;
        }
        // SAFETY: It came from a box, and nobody has a count any more.
        let loan = unsafe { KBox::from_raw(this.as_ptr()) };
        // SAFETY: The file is open, and of the type that `give_back` is made for.
        unsafe { (loan.give_back)(loan.file, loan.token) };
        // SAFETY: The loan's count. What is left of the file is done later, by code of the kernel.
        unsafe { bindings::fput(loan.file.as_ptr()) };
    }
}

impl<'a> PipeDst<'a> {
    /// # Safety
    ///
    /// `pipe` is locked; `file` is an open file with operations of `T`, of this object. Both stay so as long as this
    /// exists.
    pub(crate) unsafe fn new<T: FileOps>(
        object: &'a T,
        pipe: *mut bindings::pipe_inode_info,
        file: NonNull<bindings::file>,
        left: usize,
    ) -> Self {
        Self {
            pipe,
            file,
            memory: object.memory(),
            give_back: give_back::<T>,
            left,
            done: 0,
            end: None,
        }
    }

    /// Bytes that are still asked for.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Bytes that are in the pipe.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The file's position afterwards, where it is not the number of bytes so far.
    pub(crate) fn end(&self) -> Option<usize> {
        self.end
    }

    /// Sets the file's position after this, as [`UserDst::end_at`](crate::fs::uaccess::UserDst::end_at).
    pub fn end_at(&mut self, position: usize) {
        self.end = Some(position);
    }

    /// Lends `len` bytes of [`FileOps::memory`] to the pipe, or as many of them as it has room for,
    /// and returns how many.
    ///
    /// The bytes must not change before the object gets `token` back, by [`FileOps::give_back`]: once
    /// for this call, when all pipe buffers have been used up, or at once if it fails.
    ///
    /// Errors: -EAGAIN if the pipe is full, -EPIPE if nobody reads it, -ENOMEM, -EINVAL for bytes
    /// outside of the memory.
    pub fn lend(&mut self, start: usize, len: usize, token: usize) -> Result<usize> {
        let loan = KBox::new(
            Loan {
                buffers: Refcount::new(1),
                file: self.file,
                give_back: self.give_back,
                token,
            },
            GFP_KERNEL,
        )
        .inspect_err(|_| {
            // SAFETY: By the rules of `new()`.
            unsafe { (self.give_back)(self.file, token) }
        })?;
        // SAFETY: The file is open; the count belongs to the loan.
        unsafe { bindings::ferro_get_file(self.file.as_ptr()) };
        let loan = KBox::leak(loan).into();
        let lent = self.fill(loan, start, len.min(self.left));
        // SAFETY: The count of `KBox::new()` above.
        unsafe { Loan::put(loan) };
        let lent = lent?;
        // No overflow: it is at most what was left.
        self.left -= lent;
        self.done += lent;
        Ok(lent)
    }

    fn fill(&self, loan: NonNull<Loan>, start: usize, len: usize) -> Result<usize> {
        let memory = self.memory.ok_or(EINVAL)?;
        let mut lent = 0;
        while lent < len {
            let at = start.checked_add(lent).ok_or(EINVAL)?;
            let page = memory.page_at(at).ok_or(EINVAL)?;
            let offset = at % PAGE_SIZE;
            // No overflow: `lent` is below `len`.
            let part = (PAGE_SIZE - offset).min(len - lent);
            let (in_page, bytes) = (u32::try_from(offset)?, u32::try_from(part)?);
            // SAFETY: The loan is counted.
            unsafe { loan.as_ref() }.buffers.inc();
            // SAFETY: The pipe is locked; it takes over the count, or gives it up. The loan keeps the
            // file, and so the object with its memory.
            let result = to_result(unsafe {
                bindings::ferro_add_to_pipe(
                    self.pipe,
                    page,
                    in_page,
                    bytes,
                    &raw const PIPE_BUF_OPS,
                    loan.as_ptr().expose_provenance(),
                )
            });
            match result {
                Ok(()) => lent += part,
                Err(e) if lent == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(lent)
    }
}

/// # Safety
///
/// `file` is an open file with operations of `T`.
unsafe fn give_back<T: FileOps>(file: NonNull<bindings::file>, token: usize) {
    // SAFETY: By the rules of this function.
    unsafe { object::<T>(file.as_ptr()) }.give_back(token);
}

/// There is no `try_steal()`: the pages stay the object's.
static PIPE_BUF_OPS: bindings::pipe_buf_operations = bindings::pipe_buf_operations {
    confirm: None,
    release: Some(release),
    try_steal: None,
    get: Some(get),
};

/// The loan of a pipe buffer.
///
/// # Safety
///
/// `buf` is a pipe buffer with [`PIPE_BUF_OPS`].
unsafe fn loan_of(buf: *mut bindings::pipe_buffer) -> NonNull<Loan> {
    // SAFETY: `PipeDst::fill()` left a pointer there that is not NULL.
    unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut((*buf).private)) }
}

/// # Safety
///
/// Called by the pipe for a buffer with [`PIPE_BUF_OPS`] that it is done with.
unsafe extern "C" fn release(
    _pipe: *mut bindings::pipe_inode_info,
    buf: *mut bindings::pipe_buffer,
) {
    // SAFETY: The buffer has a count, which goes with it.
    unsafe { Loan::put(loan_of(buf)) };
}

/// # Safety
///
/// Called by the pipe for a buffer with [`PIPE_BUF_OPS`] that is about to be duplicated.
unsafe extern "C" fn get(
    _pipe: *mut bindings::pipe_inode_info,
    buf: *mut bindings::pipe_buffer,
) -> bool {
    // SAFETY: The buffer has a count.
    unsafe { loan_of(buf).as_ref() }.buffers.inc();
    true
}
