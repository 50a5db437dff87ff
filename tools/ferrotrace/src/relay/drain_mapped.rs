// SPDX-License-Identifier: GPL-2.0

//! Draining by mmap: data comes from the mapping, read(2) only moves the kernel's counters.
//!
//! The kernel may write into the mapping at any time. In no-overwrite mode a finished sub-buffer
//! does not change until it is reported as consumed, which happens after its bytes are in the
//! recording. In overwrite mode `produced` is read again after each copy.

#![deny(unsafe_code)]

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

/// Attempts to take the finished sub-buffers before the unfinished one. A writer that is faster
/// than this is still running at full speed, and it is arbitrary where its recording ends.
const QUIET_ATTEMPTS: usize = 8;

/// Drains a mapped buffer.
#[derive(Debug)]
pub struct MappedDrain {
    layout: Layout,
    /// The oldest sub-buffer that has not been taken, as the kernel counts.
    consumed: usize,
    cursor: Cursor,
    paddings: Vec<usize>,
    scratch: Vec<u8>,
}

/// Remainder of a sub-buffer, after asking the kernel about the last reader.
enum Located {
    /// Bytes of it are left to take, from `taken` on; for the kernel, `read` bytes have been read.
    Here { read: usize, taken: usize },
    /// An earlier reader took all of it, and the kernel has gone on to the next.
    TakenBefore,
    /// The kernel is somewhere else; the counters were adopted.
    Elsewhere,
}

impl MappedDrain {
    /// A drain that starts where the kernel's `consumed` count is.
    pub fn new(layout: Layout, source: &mut dyn Source) -> Result<Self> {
        Ok(Self {
            consumed: source.consumed()?,
            cursor: Cursor::Unknown,
            paddings: Vec::new(),
            scratch: Vec::new(),
            layout,
        })
    }

    /// Continues from the kernel's count after a read has shown that the kernel has skipped
    /// sub-buffers, from `expected` on, by itself: in overwrite mode because the writer has
    /// overtaken the reader, otherwise because there was nothing left in them.
    fn adopt_passed(
        &mut self,
        source: &dyn Source,
        sink: &mut Sink<'_>,
        expected: usize,
        consumed: usize,
    ) {
        let passed = consumed.wrapping_sub(expected);
        if self.layout.mode == Mode::Overwrite && isize::try_from(passed).is_ok() {
            sink.tally.add_lost(passed);
        }
        self.consumed = consumed;
        self.cursor = self.inside(source, consumed).unwrap_or(Cursor::Unknown);
    }

    /// Where the kernel is after a read that ended inside sub-buffer `k`; `None` if it did not.
    fn inside(&self, source: &dyn Source, k: usize) -> Option<Cursor> {
        let geometry = self.layout.geometry;
        let read = source.position()?.checked_sub(geometry.start(k))?;
        (read > 0 && read < geometry.subbuf_size()).then_some(Cursor::Inside { read, taken: 0 })
    }

    /// The first byte of a sub-buffer to take, if an earlier reader took `taken`. In overwrite mode
    /// everything in the buffer is recorded, even if it was read before.
    fn first(&self, taken: usize) -> usize {
        match self.layout.mode {
            Mode::NoOverwrite => taken.max(self.layout.header.len()),
            Mode::Overwrite => self.layout.header.len(),
        }
    }

    /// Reads one byte to find out where in sub-buffer `k`, a finished one whose data ends at `end`,
    /// the last reader stopped. Sub-buffers from `expected` on are lost if the kernel turns out to
    /// have passed over them.
    fn locate(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        k: usize,
        end: usize,
        expected: usize,
    ) -> Result<Located> {
        let geometry = self.layout.geometry;
        let len = read_up_to(source, &mut [0])?;
        let consumed = source.consumed()?;
        let next = k.wrapping_add(1);
        if len == 0 {
            if consumed != k && consumed != next {
                self.adopt_passed(source, sink, expected, consumed);
                return Ok(Located::Elsewhere);
            }
            self.cursor = Cursor::Boundary;
            if consumed == next {
                self.consumed = next;
                return Ok(Located::TakenBefore);
            }
            return Ok(Located::Here { read: 0, taken: 0 });
        }
        // One byte never ends at position 0, unless that byte ends the buffer: then the kernel does
        // not keep the position, or the difference does not matter.
        let began = source
            .position()
            .filter(|&position| position != 0)
            .and_then(|position| geometry.read_began(position, len));
        match began {
            Some((slot, offset)) if consumed == k && slot == geometry.slot(k) => {
                Ok(Located::Here {
                    read: offset + len,
                    taken: offset,
                })
            }
            Some((slot, offset))
                if consumed == next && slot == geometry.slot(k) && offset + len == end =>
            {
                // It was the last byte of `k`: the kernel has gone on, but the sub-buffer has not
                // been taken.
                self.consumed = next;
                self.cursor = Cursor::Boundary;
                Ok(Located::Here {
                    read: offset + len,
                    taken: offset,
                })
            }
            _ if consumed == k => Ok(Located::Here {
                read: len,
                taken: 0,
            }),
            _ if consumed == next => {
                self.consumed = next;
                self.cursor = Cursor::Inside {
                    read: len,
                    taken: 0,
                };
                Ok(Located::TakenBefore)
            }
            _ => {
                self.adopt_passed(source, sink, expected, consumed);
                Ok(Located::Elsewhere)
            }
        }
    }

    /// Copies bytes `from..to` of sub-buffer `k` into the scratch buffer.
    fn copy(&mut self, source: &dyn Source, k: usize, from: usize, to: usize) -> Result<()> {
        let len = to.saturating_sub(from);
        self.scratch.resize(len, 0);
        let start = self.layout.geometry.start(k) + from;
        source.copy(start, &mut self.scratch)
    }

    /// Returns true if the copy of sub-buffer `k` is undamaged.
    fn intact(&self, source: &mut dyn Source, k: usize) -> Result<bool> {
        match self.layout.mode {
            Mode::NoOverwrite => Ok(true),
            Mode::Overwrite => Ok(self.layout.geometry.survived(k, source.produced()?)),
        }
    }

    /// Where the data of finished sub-buffer `k` ends; `None` if it has been overwritten.
    fn end_of(&mut self, source: &mut dyn Source, k: usize) -> Result<Option<usize>> {
        let Layout {
            geometry, header, ..
        } = self.layout;
        let padding = if header.is_empty() {
            self.paddings.get(geometry.slot(k)).copied()
        } else {
            self.copy(source, k, 0, header.len())?;
            header.decode(&self.scratch)
        };
        if let Some(data) = padding.and_then(|padding| geometry.data(header, padding)) {
            return Ok(Some(data.end));
        }
        if self.layout.mode == Mode::Overwrite && !self.intact(source, k)? {
            return Ok(None);
        }
        Err(self.layout.bad_padding(k, padding.unwrap_or(usize::MAX)))
    }

    /// Takes sub-buffer `k`, which is finished and the oldest. Returns whether the caller may
    /// continue with the next.
    fn take(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>, k: usize) -> Result<bool> {
        let next = k.wrapping_add(1);
        let Some(end) = self.end_of(source, k)? else {
            sink.tally.add_lost(1);
            self.acknowledge(source, next)?;
            return Ok(true);
        };
        if end == 0 {
            // Flushed when it was empty. No reader can have stopped inside it, and read(2) does not
            // always get past two of these.
            sink.tally.add_subbufs(1);
            self.acknowledge(source, next)?;
            return Ok(true);
        }
        if self.layout.mode == Mode::Overwrite {
            // What is copied does not depend on other readers, and speed matters: asking the kernel
            // comes later.
            self.copy(source, k, self.first(0).min(end), end)?;
            if self.intact(source, k)? {
                sink.put(&self.scratch)?;
                sink.tally.add_subbufs(1);
            } else {
                sink.tally.add_lost(1);
            }
            return match self.cursor_at(source, sink, k, end, next)? {
                Located::Here { read, .. } => self.leave(source, sink, k, read, end),
                Located::TakenBefore => Ok(true),
                Located::Elsewhere => Ok(false),
            };
        }
        match self.cursor_at(source, sink, k, end, k)? {
            Located::Here { read, taken } => {
                self.copy(source, k, self.first(taken).min(end), end)?;
                sink.put(&self.scratch)?;
                sink.tally.add_subbufs(1);
                self.leave(source, sink, k, read, end)
            }
            Located::TakenBefore => Ok(true),
            Located::Elsewhere => Ok(false),
        }
    }

    /// Where the kernel is in sub-buffer `k`; asks only if that is not known. Sub-buffers from
    /// `expected` on are lost if the kernel turns out to have passed over them.
    fn cursor_at(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        k: usize,
        end: usize,
        expected: usize,
    ) -> Result<Located> {
        match self.cursor {
            Cursor::Boundary => Ok(Located::Here { read: 0, taken: 0 }),
            Cursor::Inside { read, taken } => Ok(Located::Here { read, taken }),
            Cursor::Unknown => self.locate(source, sink, k, end, expected),
        }
    }

    /// Moves the kernel on from sub-buffer `k`, which ends at `end` and of which `read` bytes count
    /// as read for the kernel. Returns whether it then is where the caller expects it.
    fn leave(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        k: usize,
        read: usize,
        end: usize,
    ) -> Result<bool> {
        let next = k.wrapping_add(1);
        if self.consumed == next {
            return Ok(true);
        }
        // More than there is: the count is that of a sub-buffer that was overwritten, and the
        // kernel has kept it.
        if read == 0 || read > end {
            self.acknowledge(source, next)?;
            return Ok(true);
        }
        self.read_to_boundary(source, sink, k, read, end)
    }

    /// Moves the kernel from inside sub-buffer `k`, of which everything has been taken, to the
    /// start of the next.
    fn read_to_boundary(
        &mut self,
        source: &mut dyn Source,
        sink: &mut Sink<'_>,
        k: usize,
        read: usize,
        end: usize,
    ) -> Result<bool> {
        let next = k.wrapping_add(1);
        let left = end.saturating_sub(read);
        if left == 0 {
            // Everything was read while the sub-buffer was unfinished: the kernel only notices that
            // when more is read.
            return match self.locate(source, sink, k, end, next)? {
                Located::TakenBefore => Ok(true),
                Located::Elsewhere => Ok(false),
                Located::Here { .. } => {
                    self.cursor = Cursor::Boundary;
                    self.acknowledge(source, next)?;
                    Ok(true)
                }
            };
        }
        self.scratch.resize(left, 0);
        let mut scratch = std::mem::take(&mut self.scratch);
        let done = read_up_to(source, &mut scratch);
        self.scratch = scratch;
        done?;
        let consumed = source.consumed()?;
        if consumed == next {
            self.consumed = next;
            self.cursor = self.inside(source, next).unwrap_or(Cursor::Boundary);
            return Ok(true);
        }
        if consumed == k {
            // Reading does not consume here; so nothing can have been read in part either.
            self.cursor = Cursor::Boundary;
            self.acknowledge(source, next)?;
            return Ok(true);
        }
        self.adopt_passed(source, sink, next, consumed);
        Ok(false)
    }

    /// Tells the kernel that all sub-buffers before `next` are consumed, in steps that it accepts.
    fn acknowledge(&mut self, source: &mut dyn Source, next: usize) -> Result<()> {
        let mut delta = next.wrapping_sub(self.consumed);
        while delta > 0 {
            let step = delta.min(self.layout.geometry.n_subbufs());
            source.add_consumed(step)?;
            self.consumed = self.consumed.wrapping_add(step);
            delta -= step;
        }
        Ok(())
    }

    /// Saves what was read of a sub-buffer only to find out the position: otherwise the next reader
    /// would miss it.
    fn put_fetched(&mut self, source: &dyn Source, sink: &mut Sink<'_>) -> Result<()> {
        match self.cursor {
            Cursor::Inside { read, taken }
                if read > self.first(taken) && self.layout.mode == Mode::NoOverwrite =>
            {
                self.copy(source, self.consumed, self.first(taken), read)?;
                sink.put_partial(&self.scratch)
            }
            _ => Ok(()),
        }
    }

    /// Takes the unfinished sub-buffer, if it is the oldest.
    fn take_partial(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<()> {
        let Layout {
            geometry,
            header,
            mode,
            ..
        } = self.layout;
        let k = self.consumed;
        let before = source.produced()?;
        if before != k {
            // The writer is faster than the drain. What follows is left to the next reader.
            return self.put_fetched(source, sink);
        }
        let mut bytes = vec![0; geometry.subbuf_size()];
        let len = read_up_to(source, &mut bytes)?;
        bytes.truncate(len);
        self.copy(source, k, 0, geometry.subbuf_size())?;
        let quiet = source.produced()? == before;

        if !quiet {
            // A stream continues in the next sub-buffer; anything else would be torn.
            if header.is_empty() && mode == Mode::NoOverwrite {
                self.put_fetched(source, sink)?;
                return sink.put_partial(&bytes);
            }
            sink.tally.warn(format!(
                "{len} bytes of the unfinished sub-buffer {k} were not saved: it was still being \
                 written"
            ));
            return Ok(());
        }
        // Where the bytes are in the sub-buffer, and how many of them were taken before.
        let began = source
            .position()
            .and_then(|position| geometry.read_began(position, len))
            .filter(|&(slot, _)| len > 0 && slot == geometry.slot(k))
            .map(|(_, offset)| offset);
        let (offset, taken) = match self.cursor {
            Cursor::Boundary => (began.unwrap_or(0), 0),
            Cursor::Inside { read, taken } => (began.unwrap_or(read), taken),
            Cursor::Unknown => (began.unwrap_or(0), began.unwrap_or(0)),
        };
        if len == 0 && mode == Mode::Overwrite && offset > 0 {
            sink.tally.warn(
                "the unfinished sub-buffer was not saved: the kernel does not tell how long it is",
            );
            return Ok(());
        }
        let there = self.scratch.get(offset..).unwrap_or_default();
        if !there.starts_with(&bytes) {
            sink.tally.warn(format!(
                "{len} bytes were not saved: they are not from the unfinished sub-buffer {k}"
            ));
            return Ok(());
        }
        let from = self.first(taken);
        sink.put_partial(self.scratch.get(from..offset + len).unwrap_or_default())
    }
}

impl Drain for MappedDrain {
    fn ready(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<bool> {
        let Layout {
            geometry,
            header,
            mode,
            ..
        } = self.layout;
        let start = self.consumed;
        let produced = source.produced()?;
        let Some(window) = geometry.ready(mode, start, produced) else {
            let consumed = source.consumed()?;
            if consumed == self.consumed && source.produced()? == produced {
                return Err(Error::BadControl {
                    path: source.path().into(),
                    found: format!("{produced} produced, {consumed} consumed"),
                    expected: "a possible pair of counts",
                });
            }
            sink.tally
                .warn("the channel was reset while it was recorded");
            // A reset clears the count of bytes read, too.
            self.consumed = consumed;
            self.cursor = Cursor::Boundary;
            return Ok(true);
        };
        sink.tally.note_ready(window.count);
        if window.lost > 0 {
            sink.tally.add_lost(window.lost);
            self.acknowledge(source, window.first)?;
            if let Cursor::Inside { taken, .. } = &mut self.cursor {
                *taken = 0;
            }
        }
        if header.is_empty() && window.count > 0 {
            source.paddings(&mut self.paddings)?;
        }
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
        for _ in 0..QUIET_ATTEMPTS {
            if !self.ready(source, sink)? {
                break;
            }
        }
        if partial {
            return self.take_partial(source, sink);
        }
        self.put_fetched(source, sink)
    }

    fn rest(&mut self, source: &mut dyn Source, sink: &mut Sink<'_>) -> Result<()> {
        let Layout {
            geometry, header, ..
        } = self.layout;
        let bytes = read_all_that_is_left(source, geometry)?;
        match self.cursor {
            Cursor::Inside { read, taken } if header.is_empty() => {
                self.copy(source, self.consumed, taken, read)?;
                sink.put(&self.scratch)?;
                sink.put(&bytes)
            }
            _ if header.is_empty() => sink.put(&bytes),
            Cursor::Boundary => sink.put(&without_headers(&bytes, geometry, header)),
            Cursor::Unknown | Cursor::Inside { .. } => {
                sink.tally.warn(format!(
                    "{} bytes were not saved: the channel was closed, and an earlier reader had \
                     stopped inside a sub-buffer",
                    bytes.len()
                ));
                Ok(())
            }
        }
    }
}
