// SPDX-License-Identifier: GPL-2.0

//! One CPU's buffer of a fast channel: the control page, the consumer's page and the data, mapped.
//!
//! # Ordering
//!
//! The loads of `reserve` and `committed` are followed by an acquire fence, which pairs with the
//! release of the writer's commit: records before the position are complete. The fence before the
//! load in [`Ring::kept`] pairs with the writer's between advancing `reserve` and writing: a reader
//! that has copied a new byte sees that its place was reused. [`Ring::consume`] releases: the
//! writer overwrites only what has been copied.

#![deny(unsafe_code)]

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::atomic::fence;

use nix::errno::Errno;

use super::record::ALIGN;
use super::record::Header;
use super::walk::BadRecord;
use super::walk::Sizes;
use crate::relay::channel::Mode;
use crate::relay::error::Error;
use crate::relay::error::Result;
use crate::relay::mapping::Mapping;
use crate::relay::mapping::WritableMapping;
use crate::relay::mapping::holds;

/// The layout of the file: `<linux/ferrotrace_relay.h>`.
pub mod abi {
    /// `relay_fast_ctl.magic`.
    pub const MAGIC: u32 = 0x796c_7266;
    /// `relay_fast_ctl.version`.
    pub const VERSION: u32 = 1;

    /// Offset of `relay_fast_ctl.reserve`.
    pub const RESERVE: usize = 0;
    /// Offset of `relay_fast_ctl.mask`.
    pub const MASK: usize = 16;
    /// Offset of `relay_fast_ctl.committed`.
    pub const COMMITTED: usize = 24;
    /// Offset of `relay_fast_ctl.lost`.
    pub const LOST: usize = 32;
    /// Offset of `relay_fast_ctl.overwritten`.
    pub const OVERWRITTEN: usize = 40;
    /// Offset of `relay_fast_ctl.closed`.
    pub const CLOSED: usize = 56;
    /// Offset of `relay_fast_ctl.magic` and `version`.
    pub const MAGIC_VERSION: usize = 64;
    /// Offset of `relay_fast_ctl.cpu` and `flags`.
    pub const CPU_FLAGS: usize = 72;
    /// Offset of `relay_fast_ctl.subbuf_size`.
    pub const SUBBUF_SIZE: usize = 80;
    /// Offset of `relay_fast_ctl.n_subbufs`.
    pub const N_SUBBUFS: usize = 88;

    /// Where the consumer's page begins.
    pub const CONSUMER: usize = 4096;
    /// Offset in the consumer's page of `relay_fast_consumer.consumed`.
    pub const CONSUMED: usize = 0;
    /// Offset in the consumer's page of `relay_fast_consumer.watermark`.
    pub const WATERMARK: usize = 8;
    /// Where the data begins.
    pub const DATA: usize = 8192;

    /// `relay_fast_ctl.flags`: the oldest records are lost, not the newest.
    pub const OVERWRITE: u32 = 1;
    /// In `reserve`, the number of records that are being written.
    pub const IN_FLIGHT: u64 = 0x1f;
    /// In `reserve`, the position is above that many bits.
    pub const POSITION_SHIFT: u32 = 2;
}

/// The constant properties of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its sizes.
    pub sizes: Sizes,
    /// Its mode.
    pub mode: Mode,
    /// The CPU that writes it.
    pub cpu: u32,
}

/// A buffer.
#[derive(Debug)]
pub struct Ring {
    map: Mapping,
    consumer: Option<WritableMapping>,
    description: Description,
}

/// A page, or less.
const PAGE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

impl Ring {
    /// The description of the buffer behind `file`; `None` if that does not belong to a fast
    /// channel.
    pub fn probe(file: &File, path: &Path) -> Result<Option<Description>> {
        let failed = |error| Error::channel("examine", path, error);
        if !holds(file, PAGE).map_err(failed)? {
            return Ok(None);
        }
        let ctl = match Mapping::new(file, PAGE) {
            Ok(ctl) => ctl,
            // The error of a file without mmap, or of a buffer that can only be mapped as a whole.
            Err(Errno::ENODEV | Errno::EINVAL) => return Ok(None),
            // In debugfs this means that it has been removed. A user who must not map must not read
            // either.
            Err(other) => return Err(Error::channel("map", path, other.into())),
        };
        let word = |offset| ctl.load(offset).unwrap_or(0);
        let (magic, version) = halves(word(abi::MAGIC_VERSION));
        if magic != abi::MAGIC {
            return Ok(None);
        }
        let unknown = |what| Error::BadControlPage {
            path: path.into(),
            what,
        };
        if version != abi::VERSION {
            return Err(unknown(format!(
                "version {version} is not {}",
                abi::VERSION
            )));
        }
        let (cpu, flags) = halves(word(abi::CPU_FLAGS));
        let (subbuf_size, n_subbufs) = (word(abi::SUBBUF_SIZE), word(abi::N_SUBBUFS));
        let sizes = Sizes::new(subbuf_size, n_subbufs)
            .filter(|sizes| Some(sizes.size()) == word(abi::MASK).checked_add(ALIGN))
            .ok_or_else(|| {
                unknown(format!(
                    "no buffer has {n_subbufs} sub-buffers of {subbuf_size} bytes"
                ))
            })?;
        let mode = if flags & abi::OVERWRITE != 0 {
            Mode::Overwrite
        } else {
            Mode::NoOverwrite
        };
        Ok(Some(Description { sizes, mode, cpu }))
    }

    /// Maps the buffer behind `file`. With `consume` it has to be open for writing too, and what
    /// has been read can be given back. `None` if it does not belong to a fast channel.
    pub fn open(file: &File, path: &Path, consume: bool) -> Result<Option<Self>> {
        let Some(description) = Self::probe(file, path)? else {
            return Ok(None);
        };
        let refused = |errno: Errno| Error::channel("map", path, errno.into());
        let len = usize::try_from(description.sizes.size())
            .ok()
            .and_then(|size| size.checked_add(abi::DATA))
            .and_then(NonZeroUsize::new)
            .ok_or_else(|| refused(Errno::EOVERFLOW))?;
        let failed = |error| Error::channel("examine", path, error);
        if !holds(file, len).map_err(failed)? {
            return Err(Error::BadControlPage {
                path: path.into(),
                what: format!("the file is shorter than {len} bytes"),
            });
        }
        let consumer = consume.then(|| WritableMapping::new(file, 4096, PAGE));
        let ring = Self {
            map: Mapping::new(file, len).map_err(refused)?,
            consumer: consumer.transpose().map_err(refused)?,
            description,
        };
        Ok(Some(ring))
    }

    /// Its constant properties.
    pub fn description(&self) -> Description {
        self.description
    }

    /// Its sizes.
    pub fn sizes(&self) -> Sizes {
        self.description.sizes
    }

    /// The word at `offset`, which is one of those in [`abi`] and therefore inside the page.
    fn word(&self, offset: usize) -> u64 {
        self.map.load(offset).unwrap_or(0)
    }

    fn reserve(&self) -> u64 {
        let reserve = self.word(abi::RESERVE);
        fence(Ordering::Acquire);
        reserve
    }

    /// The position of the next record, including those that are being written.
    pub fn produced(&self) -> u64 {
        position(self.reserve())
    }

    /// All records before this position are complete. It may be less than before, while a record is
    /// being written.
    pub fn committed(&self) -> u64 {
        let reserve = self.reserve();
        if reserve & abi::IN_FLIGHT == 0 {
            return position(reserve);
        }
        let committed = self.word(abi::COMMITTED);
        fence(Ordering::Acquire);
        committed
    }

    /// The oldest position that has not been overwritten; a copy made before is valid from there
    /// on.
    pub fn kept(&self) -> u64 {
        fence(Ordering::Acquire);
        self.sizes().kept(self.produced())
    }

    /// Everything before this position has been read.
    pub fn consumed(&self) -> u64 {
        self.word(abi::CONSUMER + abi::CONSUMED)
    }

    /// How many unread bytes poll waits for; 0 for a sub-buffer.
    pub fn watermark(&self) -> u64 {
        self.word(abi::CONSUMER + abi::WATERMARK)
    }

    /// Records that could not be written.
    pub fn lost(&self) -> u64 {
        self.word(abi::LOST)
    }

    /// Bytes overwritten before they were consumed.
    pub fn overwritten(&self) -> u64 {
        self.word(abi::OVERWRITTEN)
    }

    /// Returns true if the channel is closed. All data written before the close is then visible.
    pub fn is_closed(&self) -> bool {
        let closed = self.word(abi::CLOSED) != 0;
        fence(Ordering::Acquire);
        closed
    }

    /// Gives everything before `position` back to the writer.
    pub fn consume(&self, position: u64) {
        self.set(abi::CONSUMED, position);
    }

    /// Makes poll wait for that many bytes; 0 for a sub-buffer.
    pub fn set_watermark(&self, bytes: u64) {
        self.set(abi::WATERMARK, bytes);
    }

    fn set(&self, offset: usize, value: u64) {
        if let Some(consumer) = &self.consumer {
            // The offsets in `abi` are inside the page.
            let _ = consumer.store(offset, value);
        }
    }

    /// Where the byte at `position` is in the mapping.
    fn offset(&self, position: u64) -> usize {
        // The whole buffer is mapped, so an offset in it fits a usize.
        usize::try_from(self.sizes().offset(position)).map_or(0, |offset| abi::DATA + offset)
    }

    /// Counts the records between `from` and `to`, which must not be changing, with [`Sizes::walk`].
    pub fn walk(&self, from: u64, to: u64) -> std::result::Result<u64, BadRecord> {
        let sizes = self.sizes();
        let len = usize::try_from(sizes.size() / ALIGN).unwrap_or(0);
        let words = self.map.words(abi::DATA, len).unwrap_or_default();
        sizes.walk(from, to, |position| {
            let index = usize::try_from(sizes.offset(position) / ALIGN);
            let word = index.ok().and_then(|index| words.get(index));
            let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
            Header::decode(word.to_ne_bytes())
        })
    }

    /// Copies the bytes from `position` on until `into` is full.
    pub fn copy(&self, position: u64, into: &mut [u8]) {
        let room = self.sizes().size() - self.sizes().offset(position);
        let first = usize::try_from(room).map_or(into.len(), |room| room.min(into.len()));
        let (first, wrapped) = into.split_at_mut(first);
        // The range is in the buffer, all of which is mapped.
        let _ = self.map.copy_out(self.offset(position), first);
        let _ = self.map.copy_out(abi::DATA, wrapped);
    }

    /// Writes the bytes at `positions`, at most a whole buffer, to `file` at `offset`.
    pub fn write_to(&self, file: &File, offset: u64, positions: Range<u64>) -> io::Result<()> {
        let len = positions.end.saturating_sub(positions.start);
        let room = self.sizes().size() - self.sizes().offset(positions.start);
        let piece = |position, len| {
            let start = self.offset(position);
            start..start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX))
        };
        let first = piece(positions.start, len.min(room));
        let wrapped = piece(0, len.saturating_sub(room));
        self.map.write_to(file, offset, &[first, wrapped])
    }
}

/// The position in the value of `reserve`.
fn position(reserve: u64) -> u64 {
    (reserve & !abi::IN_FLIGHT) >> abi::POSITION_SHIFT
}

/// The two `__u32` in eight bytes.
fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}
