// SPDX-License-Identifier: GPL-2.0

//! Layout of a channel's memory.

use super::checksum;
use crate::ring::Ring;

/// Alignment of all parts: a page.
pub const PAGE: u64 = 4096;
/// Distance from the control page to the data, as in a reader's mapping.
const CTL_BYTES: u64 = 2 * PAGE;
/// Maximum number of CPUs, more than Linux has on any machine.
const MAX_CPUS: u64 = 1 << 16;
/// Maximum length of the text that describes records.
const MAX_FORMAT: u64 = 1 << 20;

/// Layout of a channel's memory: the page of the header, the text, and for each CPU the seal, the
/// control page, the reader's page, and the data.
///
/// # Invariants
///
/// Sums of these sizes do not overflow.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    ring: Ring,
    cpus: u64,
    /// Distance from the start of the memory to the first CPU.
    first: u64,
    /// Distance between two CPUs.
    stride: u64,
}

fn up(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}

impl Layout {
    /// Makes a layout with buffers of these sizes for `cpus` CPUs and a text of `format_bytes`
    /// bytes; `None` if that is too much.
    pub fn new(ring: Ring, cpus: u64, format_bytes: u64) -> Option<Self> {
        if !(1..=MAX_CPUS).contains(&cpus) || format_bytes > MAX_FORMAT || ring.size() > 1 << 40 {
            return None;
        }
        // INVARIANT: 2^16 CPUs with 2^41 bytes each, at most.
        Some(Self {
            ring,
            cpus,
            first: PAGE + up(format_bytes),
            stride: up(checksum::bytes(ring.n_subbufs())) + CTL_BYTES + up(ring.size()),
        })
    }

    /// Makes a layout with the maximum number of sub-buffers of `subbuf_size` bytes in `bytes`
    /// bytes; `None` if fewer than two fit.
    pub fn largest(
        subbuf_size: usize,
        overwrite: bool,
        cpus: u64,
        format_bytes: u64,
        bytes: u64,
    ) -> Option<Self> {
        let sizes = (1..32).rev().map(|bits| 1usize << bits);
        let mut layouts = sizes.filter_map(|n_subbufs| {
            let ring = Ring::new(subbuf_size, n_subbufs, overwrite).ok()?;
            Self::new(ring, cpus, format_bytes)
        });
        layouts.find(|layout| layout.bytes() <= bytes)
    }

    /// Returns the sizes of a buffer.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the number of CPUs with a buffer.
    pub fn cpus(&self) -> u64 {
        self.cpus
    }

    /// Returns the number of bytes of the memory.
    pub fn bytes(&self) -> u64 {
        self.first + self.cpus * self.stride
    }

    /// Returns the offset of the text.
    pub fn format_at(&self) -> u64 {
        PAGE
    }

    /// Returns the offset of the seal of a CPU with a buffer.
    pub fn seal_at(&self, cpu: u64) -> u64 {
        self.first + cpu.min(self.cpus) * self.stride
    }

    /// Returns the offset of its control page. The reader's page follows, and the data.
    pub fn ctl_at(&self, cpu: u64) -> u64 {
        self.seal_at(cpu) + up(checksum::bytes(self.ring.n_subbufs()))
    }

    /// Returns true if a byte belongs to the buffer of a CPU: to its control page, the reader's
    /// page, or the data.
    pub fn is_of_buffer(&self, at: u64) -> bool {
        let after = at.checked_sub(self.first).filter(|_| at < self.bytes());
        after.is_some_and(|after| after % self.stride >= up(checksum::bytes(self.ring.n_subbufs())))
    }

    /// Returns the number of bytes from the control page to the end of the data.
    pub fn buffer_bytes(&self) -> u64 {
        CTL_BYTES + up(self.ring.size())
    }

    /// Returns the offset of a byte of its data.
    pub fn data_at(&self, cpu: u64, position: u64) -> u64 {
        self.ctl_at(cpu) + CTL_BYTES + self.ring.offset(position)
    }
}
