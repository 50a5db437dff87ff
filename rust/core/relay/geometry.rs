// SPDX-License-Identifier: GPL-2.0

//! Sizes of a buffer, and the writer's half of the arithmetic.

use core::num::NonZero;

/// Position of a sub-buffer in its buffer, `0..n_subbufs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubbufIndex(usize);

impl SubbufIndex {
    /// Returns the index as a number, for an array with one element for each sub-buffer.
    #[inline]
    pub fn get(self) -> usize {
        self.0
    }
}

/// Distance in bytes from the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteOffset(pub(super) usize);

impl ByteOffset {
    /// Returns the offset as a number.
    #[inline]
    pub fn get(self) -> usize {
        self.0
    }
}

/// Reason why a pair of sizes is refused.
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

/// Description of a complete sub-buffer, from [`Geometry::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Index.
    pub index: SubbufIndex,
    /// Number of bytes at its end without data.
    pub padding: usize,
    /// Number of bytes of data.
    pub bytes: usize,
}

impl Geometry {
    /// Size of the largest buffer: `relay_open()` accepts sizes of up to 32 bits.
    pub const MAX_BYTES: usize = 0xffff_ffff;

    /// Checks the sizes that a client requests.
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

    /// Returns the size of a sub-buffer in bytes.
    #[inline]
    pub fn subbuf_size(&self) -> usize {
        self.subbuf_size
    }

    /// Returns the number of sub-buffers in a buffer.
    #[inline]
    pub fn n_subbufs(&self) -> usize {
        self.n_subbufs.get()
    }

    /// Returns the number of bytes in a buffer, before it is rounded up to pages.
    #[inline]
    pub fn bytes(&self) -> usize {
        // By the invariant this does not overflow.
        self.subbuf_size * self.n_subbufs.get()
    }

    /// Returns the index of the `count`th sub-buffer ever produced, counted from 0.
    #[inline]
    pub fn index(&self, count: usize) -> SubbufIndex {
        SubbufIndex(count % self.n_subbufs)
    }

    /// Returns the offset of a sub-buffer's start.
    #[inline]
    pub fn start(&self, index: SubbufIndex) -> ByteOffset {
        // By the invariant this does not overflow, as `index` is below `n_subbufs`.
        ByteOffset(index.0 * self.subbuf_size)
    }

    /// Returns the value of the writer's offset between two sub-buffers: the old one is complete,
    /// and the new one has not been started because the client protects it from being overwritten.
    ///
    /// The inline writers of `<linux/relay.h>` compare `offset + length` with the sub-buffer size,
    /// so this value makes each of them take the slow path.
    #[inline]
    pub fn blocked(&self) -> usize {
        // By the invariant `subbuf_size` is below the largest `usize` on 64 bits.
        self.subbuf_size.saturating_add(1)
    }

    /// Returns true if `offset` means that the writer is between two sub-buffers.
    #[inline]
    pub fn is_blocked(&self, offset: usize) -> bool {
        offset > self.subbuf_size
    }

    /// Returns true if a record of `length` bytes fits in a sub-buffer at `offset`.
    #[inline]
    pub fn fits(&self, offset: usize, length: usize) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.subbuf_size)
    }

    /// Returns the current sub-buffer as completed by the writer at `offset`, after `produced`
    /// sub-buffers. Returns `None` if it has been closed already.
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
