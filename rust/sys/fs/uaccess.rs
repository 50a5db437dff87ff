// SPDX-License-Identifier: GPL-2.0

//! User memory of a `read()` or `write()`.
//!
//! Contexts: process.

use core::cell::Cell;

use crate::bindings;
use kernel::prelude::*;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;

use crate::mm::pages::MemRange;

/// Destination of a `read()`.
pub struct UserDst {
    ptr: UserPtr,
    left: usize,
    done: usize,
    position: usize,
    end: Option<usize>,
}

impl UserDst {
    /// Makes a destination of `left` bytes at `ptr`, which is checked by the writes, for a read at
    /// `position` of the file.
    pub(super) fn new(ptr: UserPtr, left: usize, position: usize) -> Self {
        Self {
            ptr,
            left,
            done: 0,
            position,
            end: None,
        }
    }

    /// Returns the value of [`UserDst::end_at`].
    pub(super) fn end(&self) -> Option<usize> {
        self.end
    }

    /// Returns the number of bytes that still fit.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Copies all of `from`, which must fit. The bytes count once they are committed; until then,
    /// the next copy overwrites them.
    ///
    /// Errors: -EFAULT if user memory could not be written to the end; -EINVAL if `from` does not
    /// fit.
    pub fn copy(&self, from: MemRange<'_>) -> Result {
        // SAFETY: The range is readable, and only copied, byte by byte, by the CPU.
        unsafe { self.copy_raw(from.as_ptr(), from.len()) }
    }

    /// Copies as [`UserDst::copy`], up to the first fault, and returns the number of bytes copied.
    /// Returns 0 if `from` does not fit.
    pub fn copy_some(&self, from: MemRange<'_>) -> usize {
        if from.len() > self.left {
            return 0;
        }
        let (ptr, len) = (self.ptr.as_mut_ptr(), from.len());
        // SAFETY: The range is readable, and only copied, byte by byte, by the CPU; user memory is
        // checked by the callee.
        let missing = unsafe { bindings::copy_to_user(ptr, from.as_ptr().cast(), len) };
        len.saturating_sub(missing)
    }

    /// Advances by `len` bytes that have been copied.
    pub fn commit(&mut self, len: usize) {
        let len = len.min(self.left);
        self.ptr = self.ptr.wrapping_byte_add(len);
        self.left -= len;
        // No overflow: both are parts of the count given to `read()`.
        self.done += len;
    }

    /// Sets the file's position after this read, if it differs from the number of bytes read so
    /// far.
    pub fn end_at(&mut self, position: usize) {
        self.end = Some(position);
    }

    /// Returns the number of bytes that have been copied.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Returns the position in the file at which this read begins.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Copies the bytes that fit, advances, and returns their number.
    ///
    /// Errors: -EFAULT.
    pub fn copy_bytes(&mut self, bytes: &[u8]) -> Result<usize> {
        let part = bytes.get(..self.left).unwrap_or(bytes);
        // SAFETY: A slice is readable.
        unsafe { self.copy_raw(part.as_ptr(), part.len()) }?;
        self.commit(part.len());
        Ok(part.len())
    }

    /// Copies the requested part of `bytes`, the contents of a seekable file.
    ///
    /// Errors: -EFAULT.
    pub fn copy_at_position(&mut self, bytes: &[u8]) -> Result {
        let rest = bytes.get(self.position..).unwrap_or_default();
        let part = rest.get(..self.left).unwrap_or(rest);
        // SAFETY: A slice is readable.
        unsafe { self.copy_raw(part.as_ptr(), part.len()) }?;
        self.commit(part.len());
        Ok(())
    }

    /// # Safety
    ///
    /// `len` bytes at `from` are readable.
    unsafe fn copy_raw(&self, from: *const u8, len: usize) -> Result {
        if len > self.left {
            return Err(EINVAL);
        }
        // SAFETY: `from` by the rules of this function; user memory is checked by the callee.
        if unsafe { bindings::copy_to_user(self.ptr.as_mut_ptr(), from.cast(), len) } != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}

/// Source of a `write()`.
pub struct UserSrc {
    ptr: UserPtr,
    len: usize,
    taken: Cell<usize>,
}

impl UserSrc {
    /// Makes a source of `len` bytes at `ptr`, which is checked by the reads.
    pub(super) fn new(ptr: UserPtr, len: usize) -> Self {
        Self {
            ptr,
            len,
            taken: Cell::new(len),
        }
    }

    /// Returns the result of the write.
    pub(super) fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the write is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes the write return `bytes` instead of its length: the bytes after them were not used.
    pub fn take(&self, bytes: usize) {
        self.taken.set(bytes.min(self.len));
    }

    /// Reads a native `size_t`.
    ///
    /// Errors: -EINVAL if the write has another length, -EFAULT.
    pub fn native_size(&self) -> Result<usize> {
        let mut bytes = [0; size_of::<usize>()];
        if self.len != bytes.len() {
            return Err(EINVAL);
        }
        UserSlice::new(self.ptr, self.len)
            .reader()
            .read_slice(&mut bytes)?;
        Ok(usize::from_ne_bytes(bytes))
    }

    /// Reads a boolean in the kernel's notation: `0`, `1`, `n`, `y`, ... with or without a newline.
    ///
    /// Errors: -EINVAL, -EFAULT.
    pub fn flag(&self) -> Result<bool> {
        match self.text(&mut [0; 4])? {
            b"0" | b"n" | b"N" | b"off" => Ok(false),
            b"1" | b"y" | b"Y" | b"on" => Ok(true),
            _ => Err(EINVAL),
        }
    }

    /// Reads a decimal number, with or without a newline.
    ///
    /// Errors: -EINVAL for other text, -ERANGE if the number is too large for the type, -EFAULT.
    pub fn number(&self) -> Result<usize> {
        let mut bytes = [0; 32];
        let digits = self.text(&mut bytes)?;
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(EINVAL);
        }
        let digits = core::str::from_utf8(digits).map_err(|_| EINVAL)?;
        digits.parse().map_err(|_| ERANGE)
    }

    /// Reads the whole write into a buffer of the same length.
    ///
    /// Errors: -EINVAL if `to` has another length, -EFAULT.
    pub fn bytes(&self, to: &mut [u8]) -> Result {
        if to.len() != self.len {
            return Err(EINVAL);
        }
        UserSlice::new(self.ptr, self.len).reader().read_slice(to)
    }

    /// Reads the text, without white space at its ends.
    ///
    /// Errors: -EINVAL if the text does not fit in `bytes`, -EFAULT.
    pub fn text<'a>(&self, bytes: &'a mut [u8]) -> Result<&'a [u8]> {
        let text = bytes.get_mut(..self.len).ok_or(EINVAL)?;
        UserSlice::new(self.ptr, self.len)
            .reader()
            .read_slice(text)?;
        Ok(text.trim_ascii())
    }
}
