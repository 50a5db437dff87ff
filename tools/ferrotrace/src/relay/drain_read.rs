// SPDX-License-Identifier: GPL-2.0

//! Draining by read(2), for files that cannot be mapped or have no control files.
//!
//! read(2) leaves out the padding, consumes what it returns, and returns the unfinished sub-buffer
//! too. For a channel without headers that is all that is needed: [`StreamDrain`]. [`HeaderDrain`]
//! has to know where sub-buffers begin and therefore reads only finished ones, each with its exact
//! length, which is what the header says.

#![deny(unsafe_code)]

use super::channel::Geometry;
use super::channel::Mode;
use super::drain::Cursor;
use super::drain::Drain;
use super::drain::Layout;
use super::drain::Sink;
use super::drain::read_all_that_is_left;
use super::drain::read_up_to;
use super::drain::without_headers;
use super::error::Error;
use super::error::Result;
use super::source::Source;

/// Bytes for one read where the sizes of the channel are not known.
const CHUNK: usize = 256 << 10;

/// Reads that one call may make before the other CPUs have their turn.
const TURN: usize = 16;

/// Drains everything that read(2) returns.
#[derive(Debug)]
pub struct StreamDrain {
    bytes: Vec<u8>,
    /// The number of turns after which the end of a recording is given up: one whole buffer.
    turns: usize,
}

impl StreamDrain {
    /// A drain for a channel without headers.
    pub fn new(geometry: Option<Geometry>) -> Self {
        let len = geometry.map_or(CHUNK, |geometry| geometry.subbuf_size().min(CHUNK));
        let total = geometry.map_or(TURN * TURN * CHUNK, |geometry| geometry.total().get());
        Self {
            bytes: vec![0; len],
            turns: total.div_ceil(TURN * len).saturating_add(1),
        }
    }

    /// Returns the kernel's count of consumed sub-buffers, if available.
    fn consumed(source: &mut dyn Source) -> Option<usize> {
        source.consumed().ok()
    }
}

impl Drain for StreamDrain {
    fn ready(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<bool> {
        let before = Self::consumed(source);
        let mut any = false;
        for _ in 0..TURN {
            let len = source.read(&mut self.bytes)?;
            sink.put(self.bytes.get(..len).unwrap_or_default())?;
            any |= len > 0;
            if len == 0 {
                break;
            }
        }
        if let (Some(before), Some(after)) = (before, Self::consumed(source)) {
            let consumed = after.wrapping_sub(before);
            if isize::try_from(consumed).is_ok() {
                sink.tally.add_subbufs(consumed);
            }
        }
        Ok(any)
    }

    fn finish(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>, _: bool) -> Result<()> {
        for _ in 0..self.turns {
            if !self.ready(source, sink)? {
                break;
            }
        }
        Ok(())
    }

    fn rest(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<()> {
        while self.ready(source, sink)? {}
        Ok(())
    }
}

/// Drains finished sub-buffers and removes their headers.
#[derive(Debug)]
pub struct HeaderDrain {
    layout: Layout,
    consumed: usize,
    cursor: Cursor,
    bytes: Vec<u8>,
}

impl HeaderDrain {
    /// A drain that starts where the kernel's `consumed` count is.
    pub fn new(layout: Layout, source: &mut dyn Source) -> Result<Self> {
        if layout.mode == Mode::Overwrite {
            return Err(Error::HeaderUnreadable);
        }
        Ok(Self {
            layout,
            consumed: source.consumed()?,
            cursor: Cursor::Unknown,
            bytes: Vec::new(),
        })
    }

    /// Takes sub-buffer `k`, which is finished and the oldest. Returns whether the caller may
    /// continue.
    fn take(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>, k: usize) -> Result<bool> {
        let mut start = Vec::new();
        match self.cursor {
            Cursor::Boundary => (),
            Cursor::Inside { .. } => return self.step_to_boundary(source, sink, k),
            Cursor::Unknown => {
                let mut byte = [0];
                if read_up_to(source, &mut byte)? == 0 {
                    // Everything had been read, and the kernel has only now noticed the end.
                    self.consumed = source.consumed()?;
                    self.cursor = Cursor::Boundary;
                    return Ok(false);
                }
                let geometry = self.layout.geometry;
                let (slot, offset) = source
                    .position()
                    .filter(|&position| position != 0)
                    .and_then(|position| geometry.read_began(position, byte.len()))
                    .unwrap_or((geometry.slot(k), 0));
                if offset != 0 {
                    if offset >= self.layout.header.len() {
                        sink.put(&byte)?;
                    }
                    self.cursor = Cursor::Inside {
                        read: offset + byte.len(),
                        taken: offset,
                    };
                    return self.step_to_boundary(source, sink, k);
                }
                if slot != geometry.slot(k) {
                    // An earlier reader took all of `k`.
                    self.consumed = k.wrapping_add(1);
                    self.cursor = Cursor::Inside {
                        read: byte.len(),
                        taken: 0,
                    };
                    return Ok(false);
                }
                start.extend(byte);
            }
        }
        self.take_whole(source, sink, k, start)
    }

    /// Takes sub-buffer `k`, of which only `start`, a part of the header, has been read.
    fn take_whole(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        k: usize,
        start: Vec<u8>,
    ) -> Result<bool> {
        let Layout {
            geometry, header, ..
        } = self.layout;
        let mut head = start;
        let have = head.len();
        head.resize(header.len(), 0);
        if let Some(missing) = head.get_mut(have..) {
            let len = read_up_to(source, missing)?;
            head.truncate(have + len);
        }
        let padding = header.decode(&head).unwrap_or(usize::MAX);
        let data = geometry
            .data(header, padding)
            .ok_or_else(|| self.layout.bad_padding(k, padding))?;
        self.bytes.resize(data.len(), 0);
        let len = read_up_to(source, &mut self.bytes)?;
        sink.put(self.bytes.get(..len).unwrap_or_default())?;
        sink.tally.add_subbufs(1);
        if len < data.len() {
            sink.tally.warn(format!(
                "sub-buffer {k} gave {len} of {} bytes; does another reader drain this channel?",
                data.len()
            ));
        }
        self.consumed = k.wrapping_add(1);
        self.cursor = Cursor::Boundary;
        Ok(true)
    }

    /// Reads the rest of a sub-buffer whose header is not known any more: byte by byte, until the
    /// kernel counts it as consumed.
    fn step_to_boundary(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        k: usize,
    ) -> Result<bool> {
        let Layout {
            geometry, header, ..
        } = self.layout;
        let Cursor::Inside { mut read, .. } = self.cursor else {
            return Ok(false);
        };
        self.bytes.clear();
        while source.consumed()? == k && read < geometry.subbuf_size() {
            let mut byte = [0];
            if read_up_to(source, &mut byte)? == 0 {
                break;
            }
            // The kernel may have noticed the padding just now, before the byte was read.
            let next = source.position().is_some_and(|position| {
                geometry.read_began(position, byte.len())
                    == Some((geometry.slot(k.wrapping_add(1)), 0))
            });
            if next && source.consumed()? != k {
                sink.put(&self.bytes)?;
                self.consumed = k.wrapping_add(1);
                self.cursor = Cursor::Inside {
                    read: byte.len(),
                    taken: 0,
                };
                return Ok(false);
            }
            if read >= header.len() {
                self.bytes.extend(byte);
            }
            read += byte.len();
        }
        sink.put(&self.bytes)?;
        sink.tally.add_subbufs(1);
        self.consumed = source.consumed()?;
        self.cursor = Cursor::Boundary;
        Ok(true)
    }
}

impl Drain for HeaderDrain {
    fn ready(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<bool> {
        let Layout { geometry, mode, .. } = self.layout;
        let start = self.consumed;
        let produced = source.produced()?;
        let Some(window) = geometry.ready(mode, start, produced) else {
            sink.tally
                .warn("the channel was reset while it was recorded");
            // A reset clears the count of bytes read, too.
            self.consumed = source.consumed()?;
            self.cursor = Cursor::Boundary;
            return Ok(true);
        };
        for i in 0..window.count {
            let k = window.first.wrapping_add(i);
            if self.consumed != k || !self.take(source, sink, k)? {
                break;
            }
        }
        Ok(self.consumed != start)
    }

    fn finish(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        partial: bool,
    ) -> Result<()> {
        for _ in 0..TURN {
            if !self.ready(source, sink)? {
                break;
            }
        }
        if !partial {
            return Ok(());
        }
        let Layout {
            geometry, header, ..
        } = self.layout;
        let k = self.consumed;
        let before = source.produced()?;
        self.bytes.resize(geometry.subbuf_size(), 0);
        let len = read_up_to(source, &mut self.bytes)?;
        let offset = match self.cursor {
            Cursor::Boundary => 0,
            Cursor::Inside { read, .. } => read,
            Cursor::Unknown => source
                .position()
                .and_then(|position| geometry.read_began(position, len))
                .map_or(0, |(_, offset)| offset),
        };
        if len > 0 && (before != k || source.produced()? != before) {
            sink.tally.warn(format!(
                "{len} bytes of the unfinished sub-buffer {k} were not saved: it was still being \
                 written"
            ));
            return Ok(());
        }
        let skip = header.len().saturating_sub(offset);
        sink.put_partial(self.bytes.get(skip..len).unwrap_or_default())
    }

    fn rest(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<()> {
        let Layout {
            geometry, header, ..
        } = self.layout;
        let bytes = read_all_that_is_left(source, geometry)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Boundary {
            return sink.put(&without_headers(&bytes, geometry, header));
        }
        sink.tally.warn(format!(
            "{} bytes were not saved: the channel was closed, and an earlier reader had stopped \
             inside a sub-buffer",
            bytes.len()
        ));
        Ok(())
    }
}
