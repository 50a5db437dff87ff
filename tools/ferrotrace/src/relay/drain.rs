// SPDX-License-Identifier: GPL-2.0

//! What the ways of draining a buffer have in common.
//!
//! A drain belongs to one CPU's buffer. [`Drain::ready`] takes the finished sub-buffers,
//! [`Drain::finish`] at the end the unfinished one as well, [`Drain::rest`] what is left of a
//! buffer whose channel has gone, together with the control files.
//!
//! # Readers before us
//!
//! mmap and read(2) share the kernel's count of consumed sub-buffers, but read(2) has a finer one
//! as well: how many bytes of the oldest sub-buffer have been read. A reader that stopped in the
//! middle of a sub-buffer, as a drain does at the end of a recording, leaves that byte count
//! behind, and adding to `consumed` does not clear it: the next read(2) would begin that many bytes
//! into some later sub-buffer. The kernel does not show the count, but the position of a relay file
//! after a read is the absolute position in the buffer. So a drain starts with [`Cursor::Unknown`],
//! finds out with a read of one byte where the last reader stopped, takes the rest of that
//! sub-buffer, and moves the kernel to the boundary by reading up to it.

#![deny(unsafe_code)]

use std::io::Write;
use std::path::Path;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Header;
use super::channel::Mode;
use super::error::Error;
use super::error::Result;
use super::source::Source;
use super::tally::Tally;

/// Buffer properties that a drain needs.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The CPU that writes it.
    pub cpu: CpuId,
    /// The sizes.
    pub geometry: Geometry,
    /// The mode.
    pub mode: Mode,
    /// Where the padding is.
    pub header: Header,
}

impl Layout {
    /// The error for a finished sub-buffer with impossible padding.
    pub fn bad_padding(&self, subbuf: usize, padding: usize) -> Error {
        Error::BadPadding {
            cpu: self.cpu,
            subbuf,
            padding,
            subbuf_size: self.geometry.subbuf_size(),
            header: !self.header.is_empty(),
        }
    }
}

/// How much of the oldest sub-buffer read(2) has consumed, in the kernel's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Not known yet.
    Unknown,
    /// Part of it.
    Inside {
        /// Bytes that count as read for the kernel.
        read: usize,
        /// Bytes of these that belong to an earlier recording.
        taken: usize,
    },
    /// Nothing.
    Boundary,
}

/// Where the bytes go.
pub struct Sink<'a> {
    /// The file of the recording.
    pub file: &'a mut dyn Write,
    /// Its path, for messages.
    pub path: &'a Path,
    /// The counts.
    pub tally: &'a mut Tally,
}

impl Sink<'_> {
    /// Writes and counts.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| Error::output("write to", self.path, error))?;
        self.tally.add_bytes(bytes.len());
        Ok(())
    }

    /// The same for the bytes of an unfinished sub-buffer.
    pub fn put_partial(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)?;
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.tally.partial_bytes = self.tally.partial_bytes.saturating_add(len);
        Ok(())
    }
}

/// A way of draining one CPU's buffer.
pub trait Drain {
    /// Takes the finished sub-buffers. Returns whether there was any progress.
    fn ready(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<bool>;

    /// Takes what is left at the end; the unfinished sub-buffer if `partial`.
    fn finish(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>, partial: bool)
    -> Result<()>;

    /// Takes what read(2) still returns after the channel was closed and its control files have
    /// gone.
    fn rest(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<()>;
}

/// Reads until `into` is full or there is nothing more. Returns the number of bytes.
pub fn read_up_to(source: &mut dyn Source, into: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while let Some(room) = into.get_mut(done..).filter(|room| !room.is_empty()) {
        match source.read(room)? {
            0 => break,
            len => done += len,
        }
    }
    Ok(done)
}

/// Reads everything that read(2) still returns of a closed channel's buffer, at most one whole
/// buffer.
pub fn read_all_that_is_left(source: &mut dyn Source, geometry: Geometry) -> Result<Vec<u8>> {
    let mut bytes = vec![0; geometry.total().get()];
    let mut done = 0;
    while let Some(room) = bytes.get_mut(done..).filter(|room| !room.is_empty()) {
        match source.read(room) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.is_gone() && done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Removes the headers from the bytes that read(2) has returned from the start of a sub-buffer on.
///
/// The header of a finished sub-buffer says how long it is. What is left at the end is the
/// unfinished one: its header has not been written yet, so it is ignored if it claims more than
/// there is.
pub fn without_headers(bytes: &[u8], geometry: Geometry, header: Header) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut left = bytes;
    while !left.is_empty() {
        let promised = header
            .decode(left)
            .and_then(|padding| geometry.data(header, padding))
            .map(|data| data.end)
            .filter(|&end| end <= left.len());
        let (this, next) = left.split_at(promised.unwrap_or(left.len()));
        kept.extend(this.get(header.len()..).unwrap_or_default());
        left = next;
    }
    kept
}
