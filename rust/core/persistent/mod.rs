// SPDX-License-Identifier: GPL-2.0

//! Fast channels in memory that survives a reboot: what is in that memory, and what of it can be believed afterwards.
//!
//! The memory of a channel is described by a [`Header`], which is there three times. After it comes
//! the text that describes the records, then for each CPU the [`seal`] and the buffer, as
//! [`Layout`] says. The writers of records know nothing of all this: a record costs what it costs
//! in any fast channel. What protects the records are the seals, which [`checksum::Sealing`] makes when
//! the kernel panics, restarts, or the channel is closed: a checksum for each sub-buffer.
//!
//! [`validate::cpu`] goes through a buffer that was found after a reboot, and tells what is a record for certain and what is not.
//! It believes nothing: each position, length and flag may have been hit.
//!
//! Contexts: any. No locks.

pub mod checksum;
mod crc;
mod header;
mod layout;
#[cfg(test)]
mod tests;
pub mod validate;

pub use crc::Crc;
pub use header::Header;
pub use header::HeaderError;
pub use header::Repair;
pub use header::COPIES;
pub use header::COPY_BYTES;
pub use header::NAME_BYTES;
pub use layout::Layout;
pub use layout::PAGE;

/// Reads memory of a channel by words; `at` is a multiple of 8, in bytes from the start of the memory.
pub trait Memory {
    /// The word at `at`; any value if it is not inside.
    fn load(&self, at: u64) -> u64;
}

/// Changes it, too.
pub trait MemoryMut: Memory {
    /// Stores a word; nothing happens if `at` is not inside.
    fn store(&self, at: u64, word: u64);
}

impl Memory for [u8] {
    fn load(&self, at: u64) -> u64 {
        let word = usize::try_from(at)
            .ok()
            .and_then(|at| self.get(at..)?.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }
}

/// Where words of a control page are, `struct relay_fast_ctl`.
pub(crate) mod ctl {
    pub(crate) const RESERVE: u64 = 0;
    pub(crate) const COMMITTED: u64 = 24;
    pub(crate) const LOST: u64 = 32;
    pub(crate) const OVERWRITTEN: u64 = 40;
    pub(crate) const MAGIC_VERSION: u64 = 64;
}

/// `magic` and `version` of a control page, as one word.
pub const CTL_MAGIC: u64 = 0x1_796c_7266;
