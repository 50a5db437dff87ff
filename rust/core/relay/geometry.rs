// SPDX-License-Identifier: GPL-2.0

//! Sizes of a buffer, and the writer's half of the arithmetic.

use core::num::NonZero;

/// Position of a sub-buffer in its buffer, `0..n_subbufs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubbufIndex(usize);

impl SubbufIndex {
    /// The index as a number, for an array with one element for each sub-buffer.
    #[inline]
    pub fn get(self) -> usize {
        self.0
    }
}

/// Distance in bytes from the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteOffset(pub(super) usize);

impl ByteOffset {
    /// The offset as a number.
    #[inline]
    pub fn get(self) -> usize {
        self.0
    }
}

/// Why a pair of sizes is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// A sub-buffer size or a count of zero.
    Zero,
    /// The buffer would be larger than [`Geometry::MAX_BYTES`].
    TooLarge,
}

/// The sizes of a relay buffer.
///
/// # Invariants
///
/// Both numbers are at least 1 and their product is at most [`Geometry::MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    subbuf_size: usize,
    n_subbufs: NonZero<usize>,
}

/// What [`Geometry::close`] says of a sub-buffer that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its index.
    pub index: SubbufIndex,
    /// Bytes at its end that hold no data.
    pub padding: usize,
    /// Bytes of data in it.
    pub bytes: usize,
}

impl Geometry {
    /// The largest buffer: `relay_open()` accepts what fits in 32 bits.
    pub const MAX_BYTES: usize = 0xffff_ffff;

    /// Checks the sizes a client asks for.
    pub fn new(subbuf_size: usize, n_subbufs: usize) -> Result<Self, GeometryError> {
        match subbuf_size.checked_mul(n_subbufs) {
            Some(0) => Err(GeometryError::Zero),
            Some(bytes) if bytes <= Self::MAX_BYTES => {
                // INVARIANT: A product of at least 1 has factors of at least 1.
                let n_subbufs = NonZero::new(n_subbufs).ok_or(GeometryError::Zero)?;
                Ok(Self {
                    subbuf_size,
                    n_subbufs,
                })
            }
            _ => Err(GeometryError::TooLarge),
        }
    }

    /// Size of a sub-buffer in bytes.
    #[inline]
    pub fn subbuf_size(&self) -> usize {
        self.subbuf_size
    }

    /// Sub-buffers in a buffer.
    #[inline]
    pub fn n_subbufs(&self) -> usize {
        self.n_subbufs.get()
    }

    /// Bytes in a buffer, before it is rounded up to pages.
    #[inline]
    pub fn bytes(&self) -> usize {
        // By the invariant this does not overflow.
        self.subbuf_size * self.n_subbufs.get()
    }

    /// The place of the `count`th sub-buffer ever produced, counted from 0.
    #[inline]
    pub fn index(&self, count: usize) -> SubbufIndex {
        SubbufIndex(count % self.n_subbufs)
    }

    /// Where a sub-buffer starts.
    #[inline]
    pub fn start(&self, index: SubbufIndex) -> ByteOffset {
        // By the invariant this does not overflow, as `index` is below `n_subbufs`.
        ByteOffset(index.0 * self.subbuf_size)
    }

    /// The value of the writer's offset between two sub-buffers: the old one is complete, and the
    /// new one has not been started because the client said that it must not be overwritten.
    ///
    /// The inline writers of `<linux/relay.h>` compare `offset + length` with the sub-buffer size,
    /// so this value sends each of them to the slow path.
    #[inline]
    pub fn blocked(&self) -> usize {
        // By the invariant `subbuf_size` is below the largest `usize` on 64 bits.
        self.subbuf_size.saturating_add(1)
    }

    /// Whether `offset` says that the writer is between two sub-buffers.
    #[inline]
    pub fn is_blocked(&self, offset: usize) -> bool {
        offset > self.subbuf_size
    }

    /// Whether a record of `length` bytes fits in a sub-buffer at `offset`.
    #[inline]
    pub fn fits(&self, offset: usize, length: usize) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.subbuf_size)
    }

    /// The current sub-buffer as it is when the writer leaves it at `offset`, having produced
    /// `produced` before it. `None` if it has been closed already.
    #[inline]
    pub fn close(&self, produced: usize, offset: usize) -> Option<Closed> {
        let padding = self.subbuf_size.checked_sub(offset)?;
        Some(Closed {
            index: self.index(produced),
            padding,
            bytes: offset,
        })
    }
}
