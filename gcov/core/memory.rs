// SPDX-License-Identifier: GPL-2.0

//! Interface to the memory with the compilers' data, for the pure code.

use super::version::MergeFunction;

/// Error for memory that must not be read: it is not inside of one allowed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Memory of the kernel, or of a program, that an object may refer to.
///
/// The implementation knows the allowed ranges: the data of the object's module, or of the kernel's
/// image. It accepts every address. Numbers are little-endian.
pub trait Memory {
    /// Copies from `address` on. Other CPUs may be changing the memory.
    fn copy(&self, address: u64, to: &mut [u8]) -> Result<(), Unreadable>;

    /// Returns true if `len` bytes from `address` on may be read.
    fn is_readable(&self, address: u64, len: u64) -> bool;

    /// Returns the function of the runtime at an address.
    fn merge_function(&self, address: u64) -> Option<MergeFunction>;

    /// Reads the number of 32 bits at an address.
    fn u32(&self, address: u64) -> Result<u32, Unreadable> {
        let mut bytes = [0; 4];
        self.copy(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads the number of 64 bits at an address.
    #[inline]
    fn u64(&self, address: u64) -> Result<u64, Unreadable> {
        let [word] = self.words(address)?;
        Ok(word)
    }

    /// Reads numbers of 64 bits, from `address` on.
    fn words<const N: usize>(&self, address: u64) -> Result<[u64; N], Unreadable> {
        let mut words = [0; N];
        let mut at = Some(address);
        for word in &mut words {
            let mut bytes = [0; 8];
            let from = at.ok_or(Unreadable)?;
            self.copy(from, &mut bytes)?;
            *word = u64::from_le_bytes(bytes);
            at = from.checked_add(8);
        }
        Ok(words)
    }

    /// Copies numbers of 64 bits as [`Self::copy`] does, and returns true if one of them is not 0.
    fn copy_counters(&self, address: u64, to: &mut [u8]) -> Result<bool, Unreadable> {
        self.copy(address, to)?;
        Ok(to.iter().any(|byte| *byte != 0))
    }

    /// Copies the string at `address`, without the NUL at its end. Returns `Ok(None)` if it does
    /// not fit.
    ///
    /// Calls [`Self::copy`] for each byte: for names, which are read once.
    fn string<'t>(&self, address: u64, to: &'t mut [u8]) -> Result<Option<&'t [u8]>, Unreadable> {
        let mut len: usize = 0;
        let mut at = address;
        let ends = loop {
            let mut byte = [0];
            self.copy(at, &mut byte)?;
            let [byte] = byte;
            if byte == 0 {
                break true;
            }
            let Some(place) = to.get_mut(len) else {
                break false;
            };
            *place = byte;
            len = len.saturating_add(1);
            at = at.checked_add(1).ok_or(Unreadable)?;
        };
        Ok(to.get(..len).filter(|_| ends))
    }
}
