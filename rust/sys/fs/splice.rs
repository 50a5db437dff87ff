// SPDX-License-Identifier: GPL-2.0

//! `splice()` and `sendfile()`: an object's pages in pipes, without a copy.
//!
//! A pipe buffer keeps its file open, and with it the object, its pages and its module. It has no
//! page reference of its own. So [`PageBuf::is_shared`] reports other users: sockets keep pages
//! beyond the pipe buffer.
//!
//! Contexts: process; the pipe is locked.

use core::ptr::NonNull;

use crate::bindings;
use kernel::error::to_result;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Refcount;

use crate::mm::pages::PageBuf;

/// Destination of a `splice()`.
pub struct PipeDst<'a> {
    pipe: *mut bindings::pipe_inode_info,
    file: NonNull<bindings::file>,
    /// Memory of the object, which the file keeps.
    memory: Option<&'a PageBuf>,
    give_back: GiveBack,
    left: usize,
    done: usize,
    end: Option<usize>,
}

/// Tells the object of a file that a loan has ended.
pub(crate) type GiveBack = unsafe fn(NonNull<bindings::file>, usize);

/// A run of bytes that is in pipes; `private` of a pipe buffer points to it.
struct Loan {
    /// Number of pipe buffers with a part of it.
    buffers: Refcount,
    /// A counted reference.
    file: NonNull<bindings::file>,
    give_back: GiveBack,
    token: usize,
}

impl Loan {
    /// Drops a reference.
    ///
    /// # Safety
    ///
    /// The caller owns the reference.
    unsafe fn put(this: NonNull<Self>) {
        // SAFETY: The reference keeps the loan.
        if !unsafe { this.as_ref() }.buffers.dec_and_test() {
            return;
        }
        // SAFETY: The loan was allocated as a box, and has no references left.
        let loan = unsafe { KBox::from_raw(this.as_ptr()) };
        // SAFETY: The file is open, so the contract of `PipeDst::new()` allows the call.
        unsafe { (loan.give_back)(loan.file, loan.token) };
        // SAFETY: The loan owns this reference. The kernel releases the file later.
        unsafe { bindings::fput(loan.file.as_ptr()) };
    }
}

impl<'a> PipeDst<'a> {
    /// # Safety
    ///
    /// `pipe` is locked; `file` is open and keeps the memory. Both stay so as long as the result
    /// exists. `give_back` may be called with `file` until the file is released.
    pub(crate) unsafe fn new(
        memory: Option<&'a PageBuf>,
        give_back: GiveBack,
        pipe: *mut bindings::pipe_inode_info,
        file: NonNull<bindings::file>,
        left: usize,
    ) -> Self {
        Self {
            pipe,
            file,
            memory,
            give_back,
            left,
            done: 0,
            end: None,
        }
    }

    /// Returns the number of bytes that are still requested.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the number of bytes in the pipe.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Returns the file's next position, if it differs from the number of bytes so far.
    pub(crate) fn end(&self) -> Option<usize> {
        self.end
    }

    /// Sets the file's next position, as [`UserDst::end_at`](crate::fs::uaccess::UserDst::end_at).
    pub fn end_at(&mut self, position: usize) {
        self.end = Some(position);
    }

    /// Lends `len` bytes of `FileOps::memory()` to the pipe, or as many of them as the pipe has
    /// room for. Returns the number of bytes lent.
    ///
    /// The bytes must not change before the object gets `token` back by `FileOps::give_back()`.
    /// That happens once for this call: when all pipe buffers have been consumed, or at once on an
    /// error.
    ///
    /// Errors: -EAGAIN if the pipe is full, -EPIPE if it has no readers, -ENOMEM, -EINVAL for bytes
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
        // SAFETY: The file is open; the reference belongs to the loan.
        unsafe { bindings::ferro_get_file(self.file.as_ptr()) };
        let loan = KBox::leak(loan).into();
        let lent = self.fill(loan, start, len.min(self.left));
        // SAFETY: The reference of `KBox::new()` above.
        unsafe { Loan::put(loan) };
        let lent = lent?;
        // No overflow: this is at most the rest.
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
            // SAFETY: The pipe is locked; it takes over the reference, or drops it. The loan keeps
            // the file, and so the object with its memory.
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

/// Has no `try_steal()`: the pages belong to the object.
static PIPE_BUF_OPS: bindings::pipe_buf_operations = bindings::pipe_buf_operations {
    confirm: None,
    release: Some(release),
    try_steal: None,
    get: Some(get),
};

/// Returns the loan of a pipe buffer.
///
/// # Safety
///
/// `buf` is a pipe buffer with [`PIPE_BUF_OPS`].
unsafe fn loan_of(buf: *mut bindings::pipe_buffer) -> NonNull<Loan> {
    // SAFETY: `PipeDst::fill()` has stored a pointer there that is not NULL.
    unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut((*buf).private)) }
}

/// # Safety
///
/// Called by the pipe to release a buffer with [`PIPE_BUF_OPS`].
unsafe extern "C" fn release(
    _pipe: *mut bindings::pipe_inode_info,
    buf: *mut bindings::pipe_buffer,
) {
    // SAFETY: The buffer owns a reference, and is not used afterwards.
    unsafe { Loan::put(loan_of(buf)) };
}

/// # Safety
///
/// Called by the pipe for a buffer with [`PIPE_BUF_OPS`] that is about to be duplicated.
unsafe extern "C" fn get(
    _pipe: *mut bindings::pipe_inode_info,
    buf: *mut bindings::pipe_buffer,
) -> bool {
    // SAFETY: The buffer owns a reference.
    unsafe { loan_of(buf).as_ref() }.buffers.inc();
    true
}
