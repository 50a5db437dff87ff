// SPDX-License-Identifier: GPL-2.0

//! A buffer that is written from its start.

/// Error for a full buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// A caller's buffer, and the number of bytes written.
pub(super) struct Output<'t> {
    to: &'t mut [u8],
    len: usize,
}

impl<'t> Output<'t> {
    pub(super) fn new(to: &'t mut [u8]) -> Self {
        Self { to, len: 0 }
    }

    /// Returns the number of bytes written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Drops the bytes after the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Returns the next `len` bytes, for the caller to fill.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&mut [u8], NoRoom> {
        let start = self.len;
        let end = start.checked_add(len).ok_or(NoRoom)?;
        let place = self.to.get_mut(start..end).ok_or(NoRoom)?;
        self.len = end;
        Ok(place)
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn zeros(&mut self, len: usize) -> Result<(), NoRoom> {
        self.take(len)?.fill(0);
        Ok(())
    }

    #[inline]
    pub(super) fn u32(&mut self, value: u32) -> Result<(), NoRoom> {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> Result<(), NoRoom> {
        self.bytes(&value.to_le_bytes())
    }

    /// Writes numbers, one after the other.
    #[inline]
    pub(super) fn words<const N: usize>(&mut self, words: [u32; N]) -> Result<(), NoRoom> {
        let places = self.take(N.saturating_mul(4))?.chunks_exact_mut(4);
        for (place, word) in places.zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    /// Overwrites the number at an offset.
    pub(super) fn replace_u32(&mut self, at: usize, value: u32) -> Result<(), NoRoom> {
        let end = at.checked_add(4).filter(|end| *end <= self.len);
        let place = end.and_then(|end| self.to.get_mut(at..end));
        place.ok_or(NoRoom)?.copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}
