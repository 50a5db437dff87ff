// SPDX-License-Identifier: GPL-2.0

//! Sequential reader of bytes.

use super::refusal::Reason;

/// Remaining bytes.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Reason> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Reason::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Reason> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Reason::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Reason> {
        self.array().map(|bytes| u8::from_le_bytes(*bytes))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Reason> {
        self.array().map(|bytes| u16::from_le_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Reason> {
        self.array().map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Reason> {
        self.array().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Reads text with a padding of zeros to a multiple of 8.
    pub(super) fn text(&mut self, len: usize, max: usize) -> Result<&'a str, Reason> {
        if len > max {
            return Err(Reason::Name);
        }
        let text = self.take(len)?;
        let padding = self.take(padding(len))?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Reason::Reserved);
        }
        let good = text.iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
        match core::str::from_utf8(text) {
            Ok(text) if good => Ok(text),
            _ => Err(Reason::Name),
        }
    }

    pub(super) fn zero<const N: usize>(&mut self) -> Result<(), Reason> {
        match self.array::<N>()?.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(Reason::Reserved),
        }
    }
}

/// Pieces of `N` bytes, without a rest.
// `as_chunks()` is newer than the oldest compiler for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces<'a, const N: usize>(&'a [u8]);

impl<'a, const N: usize> Pieces<'a, N> {
    /// Returns `None` if the last piece is incomplete.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes
            .chunks_exact(N)
            .remainder()
            .is_empty()
            .then_some(Self(bytes))
    }

    pub(super) fn len(&self) -> usize {
        self.0.chunks_exact(N).len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8; N]> {
        self.0
            .chunks_exact(N)
            .filter_map(|piece| piece.first_chunk())
    }
}

/// Writes words into some bytes, until one of the two ends.
#[inline(always)]
pub(super) fn put_words(bytes: &mut [u8], words: impl Iterator<Item = u64>) {
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Returns the number of zeros after text of this length.
pub(super) const fn padding(len: usize) -> usize {
    len.wrapping_neg() % 8
}
