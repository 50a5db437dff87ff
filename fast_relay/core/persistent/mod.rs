// SPDX-License-Identifier: GPL-2.0

//! Fast channels in memory that survives a reboot: the layout of the memory, and its validation
//! afterwards.
//!
//! Three copies of a [`Header`] describe the memory of a channel. The text that describes the
//! records follows, then for each CPU the seal ([`checksum`]) and the buffer, by [`Layout`].
//! Writers of records do not depend on this: a record costs the same as in any fast channel. The
//! seals protect the records: [`checksum::Sealing`] makes a checksum for each sub-buffer when the
//! kernel panics or restarts, or when the channel is closed.
//!
//! [`validate::cpu`] checks a buffer that was found after a reboot, and reports which bytes are
//! certainly records. It trusts no position, length or flag, as each may be damaged.
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

/// Reads memory of a channel by words; `at` is a multiple of 8, in bytes from the start of the
/// memory.
pub trait Memory {
    /// Loads the word at `at`; returns any value if it is not inside.
    fn load(&self, at: u64) -> u64;
}

/// Writes memory of a channel by words.
pub trait MemoryMut: Memory {
    /// Stores a word; does nothing if `at` is not inside.
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

/// Offsets of the words of a control page, `struct relay_fast_ctl`.
pub(crate) mod ctl {
    pub(crate) const RESERVE: u64 = 0;
    pub(crate) const COMMITTED: u64 = 24;
    pub(crate) const LOST: u64 = 32;
    pub(crate) const OVERWRITTEN: u64 = 40;
    pub(crate) const MAGIC_VERSION: u64 = 64;
}

/// `magic` and `version` of a control page, as one word.
pub const CTL_MAGIC: u64 = 0x1_796c_7266;
