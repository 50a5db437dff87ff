// SPDX-License-Identifier: GPL-2.0

//! Draining a fast buffer: records go from the mapping to the file, without a system call a record.
//!
//! In no-overwrite mode committed records do not change until they are given back with [`Ring::consume`]: they are
//! written from the mapping, and given back when they are in the file. In overwrite mode they are copied first; then
//! [`Ring::kept`] says how much of the copy is valid.
//!
//! [`FastDrain::reading`] takes the records with read(2) instead, which gives them back by itself; the mapping then
//! only tells how many there are and what was lost.
//!
//! The buffer is written from the mapping as it is, padding included: so its blocks can be blocks of the file, and go
//! to the disk by `O_DIRECT`, without a copy in the kernel either.

#![deny(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use super::record::Header;
use super::record::Record;
use super::record::RecordReader;
use super::ring::Ring;
use super::walk::BadRecord;
use super::walk::Sizes;
use crate::relay::channel::Mode;
use crate::relay::error::Error;
use crate::relay::error::Result;
use crate::relay::output::CpuFile;
use crate::relay::tally::Tally;

/// About how many bytes of a buffer are written at once.
const TURN: u64 = 1 << 20;

/// The unit of `O_DIRECT` writes: no disk has larger blocks, and no memory smaller pages.
const BLOCK: u64 = 4096;

/// Less than this is cheaper through the page cache.
const MIN_DIRECT: u64 = 32 << 10;

/// How many milliseconds to wait for unfinished records at the end.
const PATIENCE: u32 = 50;

/// Bytes of one read(2), if a sub-buffer is not larger.
const CHUNK: usize = 256 << 10;

/// Drains one buffer.
pub struct FastDrain {
    ring: Ring,
    /// The file for read(2), if the records do not come from the mapping.
    input: Option<Box<dyn Read + Send>>,
    path: PathBuf,
    /// Everything before this position has been taken.
    position: u64,
    lost_before: u64,
    copy: Vec<u8>,
}

impl FastDrain {
    /// Returns true if a buffer of `sizes` can use `O_DIRECT`. The padding that aligns blocks of
    /// the file with those of the buffer must fit in a sub-buffer, like any record.
    pub fn can_be_direct(sizes: Sizes) -> bool {
        sizes.subbuf_size() >= BLOCK
    }

    /// Drains `ring` from where the last reader stopped, and counts what has been lost since the
    /// kernel had counted `lost_before`. `path` is for messages.
    pub fn new(ring: Ring, path: PathBuf, lost_before: u64) -> Self {
        Self {
            position: ring.consumed(),
            lost_before,
            ring,
            input: None,
            path,
            copy: Vec::new(),
        }
    }

    /// Takes the records from `input`, the relay file, with read(2).
    pub fn reading(self, input: impl Read + Send + 'static) -> Self {
        Self {
            input: Some(Box::new(input)),
            ..self
        }
    }

    /// The buffer.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Takes what has been committed. Returns whether there was anything.
    pub fn ready(&mut self, out: &mut CpuFile) -> Result<bool> {
        let produced = self.ring.produced();
        if self.position > produced || self.position % super::record::ALIGN != 0 {
            return Err(self.bad(format!(
                "a consumed position of {}, with {produced} produced",
                self.position
            )));
        }
        let (committed, start) = (self.ring.committed(), self.position);
        while self.position < committed && self.turn(committed, out)? {}
        self.note_lost(&mut out.tally);
        Ok(self.position > start)
    }

    /// Takes what there is at the end of a recording. It does not wait for a writer that goes on.
    pub fn finish(&mut self, out: &mut CpuFile) -> Result<()> {
        let end = self.ring.produced();
        self.ready(out)?;
        let mut patience = PATIENCE;
        while self.position < end && patience > 0 {
            // A record is being written, perhaps by a task that is not running.
            sleep(Duration::from_millis(1));
            patience -= 1;
            self.ready(out)?;
        }
        self.note_lost(&mut out.tally);
        Ok(())
    }

    /// Takes about one turn, at most up to `committed`. Returns whether there may be more.
    fn turn(&mut self, committed: u64, out: &mut CpuFile) -> Result<bool> {
        if let Some(mut input) = self.input.take() {
            let read = self.read(&mut input, out);
            if !read.as_ref().is_err_and(Error::is_gone) {
                self.input = Some(input);
                return read;
            }
            // The file has gone, but the mapping has not.
        }
        self.take(committed, out)?;
        self.ring.consume(self.position);
        Ok(true)
    }

    /// Takes what one read(2) returns, and continues where the kernel says that it has stopped. Returns whether there
    /// was any progress.
    fn read(&mut self, input: &mut dyn Read, out: &mut CpuFile) -> Result<bool> {
        let subbuf = usize::try_from(self.ring.sizes().subbuf_size()).unwrap_or(usize::MAX);
        self.copy.resize(subbuf.max(CHUNK), 0);
        let len = loop {
            match input.read(&mut self.copy) {
                Ok(len) => break len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break 0,
                Err(error) => return Err(Error::channel("read", &self.path, error)),
            }
        };
        let from = self.position;
        self.position = self.ring.consumed().max(from);
        let bytes = self.copy.get(..len).unwrap_or_default();
        let mut reader = RecordReader::new(bytes, subbuf);
        let (mut record, mut records) = (Record::default(), 0);
        let read = loop {
            match reader.read(&mut record) {
                Ok(true) => records += 1,
                other => break other,
            }
        };
        if read.is_err() || reader.truncated() > 0 {
            return Err(self.bad(format!("read() gave {len} bytes that are no records")));
        }
        out.file
            .write_all_at(bytes, out.tally.bytes)
            .map_err(|error| Error::output("write to", &out.path, error))?;
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        out.tally.add_records(records, len);
        // What was skipped is padding, unless the writer has overtaken the reader.
        if self.ring.description().mode == Mode::Overwrite && self.ring.kept() > from {
            let missed = (self.position - from).saturating_sub(len);
            let overwritten = &mut out.tally.overwritten_bytes;
            *overwritten = overwritten.saturating_add(missed);
        }
        Ok(self.position > from)
    }

    /// Takes about [`TURN`] bytes from the mapping, at most up to `committed`.
    fn take(&mut self, committed: u64, out: &mut CpuFile) -> Result<()> {
        let sizes = self.ring.sizes();
        if self.ring.description().mode == Mode::Overwrite {
            self.skip_to(self.ring.kept(), &mut out.tally);
            let end = sizes.turn(self.position, committed, TURN);
            return if self.position < end {
                self.copied(end, out)
            } else {
                Ok(())
            };
        }
        if committed - self.position > sizes.size() {
            return Err(self.bad(format!(
                "{} unread bytes of {}",
                committed - self.position,
                sizes.size()
            )));
        }
        let end = sizes.turn(self.position, committed, TURN);
        let records = self
            .ring
            .walk(self.position, end)
            .map_err(|bad| self.bad_record(bad))?;
        self.write(end, out)
            .map_err(|error| Error::output("write to", &out.path, error))?;
        out.tally.add_records(records, end - self.position);
        self.position = end;
        Ok(())
    }

    /// Writes everything before `end` to the end of the file. Whole blocks, if there are enough, bypass the page cache
    /// where that is possible.
    fn write(&self, end: u64, out: &mut CpuFile) -> io::Result<()> {
        let start = self.position;
        if out.direct.is_some() && out.tally.bytes == 0 {
            out.begin_with_padding(start % BLOCK)?;
        }
        let base = out.tally.bytes;
        let put = |file: &File, positions: Range<u64>| {
            let offset = base + (positions.start - start);
            self.ring.write_to(file, offset, positions)
        };
        let whole = start.next_multiple_of(BLOCK)..end & !(BLOCK - 1);
        let together = base % BLOCK == start % BLOCK;
        match &out.direct {
            Some(direct) if together && whole.end.saturating_sub(whole.start) >= MIN_DIRECT => {
                put(&out.file, start..whole.start)?;
                put(direct, whole.clone())?;
                put(&out.file, whole.end..end)
            }
            _ => put(&out.file, start..end),
        }
    }

    /// Takes the records up to `end` through a copy, as far as they have not been overwritten.
    fn copied(&mut self, end: u64, out: &mut CpuFile) -> Result<()> {
        let from = self.position;
        self.copy.resize(index(end - from), 0);
        self.ring.copy(from, &mut self.copy);
        self.skip_to(self.ring.kept(), &mut out.tally);
        if self.position >= end {
            return Ok(());
        }
        let header = |position| {
            let bytes = self.copy.get(index(position - from)..);
            let word = bytes.and_then(|bytes| bytes.first_chunk());
            Header::decode(word.copied().unwrap_or_default())
        };
        let sizes = self.ring.sizes();
        let records = sizes
            .walk(self.position, end, header)
            .map_err(|bad| self.bad_record(bad))?;
        let kept = self.copy.get(index(self.position - from)..);
        out.file
            .write_all_at(kept.unwrap_or_default(), out.tally.bytes)
            .map_err(|error| Error::output("write to", &out.path, error))?;
        out.tally.add_records(records, end - self.position);
        self.position = end;
        Ok(())
    }

    fn note_lost(&self, tally: &mut Tally) {
        tally.lost_records = self.ring.lost().saturating_sub(self.lost_before);
    }

    /// Continues at `kept` if the writer has overtaken the reader.
    fn skip_to(&mut self, kept: u64, tally: &mut Tally) {
        let lost = kept.saturating_sub(self.position);
        tally.overwritten_bytes = tally.overwritten_bytes.saturating_add(lost);
        self.position += lost;
    }

    fn bad_record(&self, BadRecord { position, header }: BadRecord) -> Error {
        self.bad(format!(
            "no record begins at {position}, {header:?} does not fit there (does another reader \
             drain this channel?)"
        ))
    }

    fn bad(&self, what: String) -> Error {
        Error::BadControlPage {
            path: self.path.clone(),
            what,
        }
    }
}

impl fmt::Debug for FastDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FastDrain")
            .field("ring", &self.ring)
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// A distance inside the buffer, all of which is mapped.
fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
