// SPDX-License-Identifier: GPL-2.0

//! What describes a channel: its sizes, its mode, and the arithmetic of its counters.
//!
//! The kernel's count of sub-buffers only grows: sub-buffer number `k` is in slot `k % n_subbufs`.
//! `produced` is the number of the sub-buffer that is being written, `consumed` that of the oldest
//! one that has not been taken. All of this is pure; the tests check it against a model of the
//! kernel.

#![deny(unsafe_code)]

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;

use serde::Deserialize;
use serde::Serialize;

/// The number of a CPU, as in the name of its relay file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kernel's action when every sub-buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// New records are dropped until the reader has caught up.
    #[default]
    NoOverwrite,
    /// The oldest sub-buffer is overwritten: a flight recorder.
    Overwrite,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::NoOverwrite => "no-overwrite",
            Mode::Overwrite => "overwrite",
        })
    }
}

/// Where the padding of a finished sub-buffer is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// In the control file `NAME<cpu>.padding`.
    #[default]
    None,
    /// In the first 4 bytes of the sub-buffer, an `unsigned int`.
    U32,
    /// In the first 8 bytes of the sub-buffer, a `size_t`.
    U64,
}

impl Header {
    /// Bytes that the header takes at the start of each sub-buffer.
    pub const fn len(self) -> usize {
        match self {
            Header::None => 0,
            Header::U32 => 4,
            Header::U64 => 8,
        }
    }

    /// Returns true if sub-buffers have no header.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The header of that many bytes.
    pub const fn from_len(len: u8) -> Option<Self> {
        match len {
            0 => Some(Header::None),
            4 => Some(Header::U32),
            8 => Some(Header::U64),
            _ => None,
        }
    }

    /// The padding that `bytes`, the start of a sub-buffer, contain.
    ///
    /// `None` if there is no header, if `bytes` are too few, or if the value does not fit in a
    /// `usize`.
    pub fn decode(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Header::None => None,
            Header::U32 => {
                let raw = u32::from_ne_bytes(*bytes.first_chunk()?);
                usize::try_from(raw).ok()
            }
            Header::U64 => {
                let raw = u64::from_ne_bytes(*bytes.first_chunk()?);
                usize::try_from(raw).ok()
            }
        }
    }
}

/// The sizes of each per-CPU buffer of a channel.
///
/// # Invariants
///
/// Both numbers are positive and their product is at most `isize::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    subbuf_size: NonZeroUsize,
    n_subbufs: NonZeroUsize,
}

/// The sub-buffers that may be copied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sub-buffers that were overwritten before they were taken.
    pub lost: usize,
    /// The first sub-buffer to copy.
    pub first: usize,
    /// How many there are from there on.
    pub count: usize,
}

impl Geometry {
    /// The sizes, if they describe a buffer that can exist.
    pub fn new(subbuf_size: usize, n_subbufs: usize) -> Option<Self> {
        let total = subbuf_size.checked_mul(n_subbufs)?;
        isize::try_from(total).ok()?;
        // INVARIANT: both are checked to be positive here, and the product is checked above.
        Some(Self {
            subbuf_size: NonZeroUsize::new(subbuf_size)?,
            n_subbufs: NonZeroUsize::new(n_subbufs)?,
        })
    }

    /// Bytes in one sub-buffer.
    pub const fn subbuf_size(self) -> usize {
        self.subbuf_size.get()
    }

    /// Sub-buffers in one CPU's buffer.
    pub const fn n_subbufs(self) -> usize {
        self.n_subbufs.get()
    }

    /// Bytes in one CPU's buffer.
    pub fn total(self) -> NonZeroUsize {
        // The invariant says that this does not saturate.
        self.subbuf_size.saturating_mul(self.n_subbufs)
    }

    /// The slot of sub-buffer `k`.
    pub const fn slot(self, k: usize) -> usize {
        k % self.n_subbufs.get()
    }

    /// Where sub-buffer `k` starts in the buffer.
    pub const fn start(self, k: usize) -> usize {
        self.slot(k) * self.subbuf_size()
    }

    /// Which sub-buffers can be copied; `None` if the counters contradict each other, as they do
    /// when the channel was reset.
    ///
    /// In overwrite mode the writer is inside slot `produced % n_subbufs`, so at most `n_subbufs -
    /// 1` finished sub-buffers are intact.
    pub fn ready(self, mode: Mode, consumed: usize, produced: usize) -> Option<Window> {
        let ahead = produced.wrapping_sub(consumed);
        if isize::try_from(ahead).is_err() {
            return None;
        }
        let lost = match mode {
            Mode::NoOverwrite if ahead > self.n_subbufs() => return None,
            Mode::NoOverwrite => 0,
            Mode::Overwrite => ahead.saturating_sub(self.n_subbufs() - 1),
        };
        Some(Window {
            lost,
            first: consumed.wrapping_add(lost),
            count: ahead - lost,
        })
    }

    /// Returns true if a copy of sub-buffer `k` in overwrite mode is undamaged, with `produced`
    /// read after the copy.
    pub fn survived(self, k: usize, produced: usize) -> bool {
        let ahead = produced.wrapping_sub(k);
        ahead > 0 && ahead < self.n_subbufs()
    }

    /// The bytes of a finished sub-buffer that are data; `None` if header and padding do not fit.
    pub fn data(self, header: Header, padding: usize) -> Option<Range<usize>> {
        let end = self.subbuf_size().checked_sub(padding)?;
        (header.len() <= end).then_some(header.len()..end)
    }

    /// Splits the position in the buffer *after* a read of `len` bytes into the slot and the offset
    /// at which the read began. (The kernel wraps the position after the last slot to 0.)
    pub fn read_began(self, position: usize, len: usize) -> Option<(usize, usize)> {
        let total = self.total().get();
        let end = if position == 0 { total } else { position };
        let began = end.checked_sub(len)?;
        (end <= total).then_some((began / self.subbuf_size, began % self.subbuf_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impossible_sizes_are_refused() {
        assert_eq!(Geometry::new(0, 4), None);
        assert_eq!(Geometry::new(4096, 0), None);
        assert_eq!(Geometry::new(usize::MAX, 2), None);
        assert_eq!(Geometry::new(usize::MAX, 1), None);
        assert!(Geometry::new(4096, 4).is_some());
    }

    #[test]
    fn a_header_is_data_of_the_machine() {
        assert_eq!(Header::U32.decode(&7u32.to_ne_bytes()), Some(7));
        assert_eq!(Header::U64.decode(&7u64.to_ne_bytes()), Some(7));
        assert_eq!(Header::U64.decode(&[0; 7]), None);
        assert_eq!(Header::None.decode(&[0; 8]), None);
        for len in 0..=u8::MAX {
            if let Some(h) = Header::from_len(len) {
                assert_eq!(h.len(), usize::from(len));
            }
        }
    }

    #[test]
    fn padding_that_does_not_fit_is_refused() {
        let geo = Geometry::new(64, 2).unwrap();
        assert_eq!(geo.data(Header::U32, 60), Some(4..4));
        assert_eq!(geo.data(Header::U32, 61), None);
        assert_eq!(geo.data(Header::None, 64), Some(0..0));
        assert_eq!(geo.data(Header::None, 65), None);
    }

    #[test]
    fn counters_that_went_backwards_are_a_reset() {
        let geo = Geometry::new(64, 4).unwrap();
        assert_eq!(geo.ready(Mode::NoOverwrite, 9, 2), None);
        assert_eq!(geo.ready(Mode::Overwrite, 9, 2), None);
        assert_eq!(geo.ready(Mode::NoOverwrite, 2, 7), None);
    }

    #[test]
    fn the_position_wraps_after_the_last_slot() {
        let geo = Geometry::new(64, 4).unwrap();
        assert_eq!(geo.read_began(0, 16), Some((3, 48)));
        assert_eq!(geo.read_began(65, 1), Some((1, 0)));
        assert_eq!(geo.read_began(3, 4), None);
        assert_eq!(geo.read_began(257, 1), None);
    }

    proptest! {
        /// A model writer stamps each slot with the number of the sub-buffer last begun there. The
        /// sub-buffers in the window must still carry their own numbers, in either mode, and
        /// together with the losses they must account for every sub-buffer between the counters.
        #[test]
        fn the_window_holds_only_intact_subbuffers(
            n in 1usize..9,
            produced in 0usize..40,
            behind in 0usize..40,
            overwrite: bool,
        ) {
            let geo = Geometry::new(16, n).unwrap();
            let mode = if overwrite { Mode::Overwrite } else { Mode::NoOverwrite };
            let consumed = produced.saturating_sub(behind);
            let full = produced - consumed >= n;
            let mut slots = vec![None; n];
            for k in 0..produced {
                slots[k % n] = Some(k);
            }
            // The writer enters the next slot unless it has to wait for the reader.
            if overwrite || !full {
                slots[produced % n] = Some(produced);
            }
            match geo.ready(mode, consumed, produced) {
                None => prop_assert!(!overwrite && produced - consumed > n),
                Some(w) => {
                    prop_assert_eq!(w.first, consumed + w.lost);
                    prop_assert_eq!(w.first + w.count, produced);
                    for k in w.first..produced {
                        prop_assert_eq!(slots[geo.slot(k)], Some(k));
                        if overwrite {
                            prop_assert!(geo.survived(k, produced));
                        }
                    }
                    // And no intact sub-buffer is given up.
                    for k in consumed..w.first {
                        prop_assert_ne!(slots[geo.slot(k)], Some(k));
                        prop_assert!(!geo.survived(k, produced));
                    }
                }
            }
        }
    }
}
