// SPDX-License-Identifier: GPL-2.0

//! A read-only mapping of a relay file. The only unsafe code of the command.
//!
//! The kernel writes into the mapped memory while we look at it. A `&[u8]` would promise the
//! compiler that the bytes stand still, so none is ever made: the bytes are copied out one by one
//! with volatile reads. Such a copy can be torn, and that is harmless here: in no-overwrite mode
//! the kernel leaves a finished sub-buffer alone until it is told that it was consumed, and in
//! overwrite mode the caller asks afterwards whether the sub-buffer was overwritten and throws the
//! copy away if so. Any byte pattern is a valid `u8`.

use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::MapFlags;
use nix::sys::mman::ProtFlags;
use nix::sys::mman::mmap;
use nix::sys::mman::munmap;

/// A whole relay file, mapped.
///
/// # Invariants
///
/// `start` is the page-aligned start of a shared, readable mapping of at least `len` bytes that
/// this value owns and that exists until it is dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

/// A range that is not inside the mapping.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl Mapping {
    /// Maps the first `len` bytes of `file`.
    ///
    /// The caller has made sure that the file is that long; touching a page behind the end of a
    /// shorter one is answered with SIGBUS.
    pub fn new(file: &File, len: NonZeroUsize) -> nix::Result<Self> {
        // SAFETY: the kernel chooses a free range of addresses (no MAP_FIXED), so that no memory
        // that anything else uses changes.
        let start = unsafe {
            mmap(
                None,
                len,
                ProtFlags::PROT_READ,
                MapFlags::MAP_SHARED,
                file,
                0,
            )?
        };
        // INVARIANT: that is the mapping the kernel has just made, and nobody else knows of it.
        Ok(Self {
            start,
            len: len.get(),
        })
    }

    /// Copies the bytes from `offset` on until `into` is full.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let end = offset.checked_add(into.len()).ok_or(OutOfRange)?;
        if end > self.len {
            return Err(OutOfRange);
        }
        let mut from = self.start.as_ptr().cast_const().cast::<u8>();
        from = from.wrapping_add(offset);

        let head = from.align_offset(size_of::<u64>()).min(into.len());
        let (head, body) = into.split_at_mut(head);
        let mut words = body.chunks_exact_mut(size_of::<u64>());

        for byte in head {
            // SAFETY: `from` is inside the mapping: the range was checked above, and the
            // invariant says that it is mapped and readable.
            *byte = unsafe { from.read_volatile() };
            from = from.wrapping_add(1);
        }
        for word in &mut words {
            // SAFETY: as above, for eight bytes; `from` is aligned, since the head ends at an
            // aligned address.
            let value = unsafe { from.cast::<u64>().read_volatile() };
            word.copy_from_slice(&value.to_ne_bytes());
            from = from.wrapping_add(size_of::<u64>());
        }
        for byte in words.into_remainder() {
            // SAFETY: as for the head.
            *byte = unsafe { from.read_volatile() };
            from = from.wrapping_add(1);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the invariant says that the range is ours; no pointer into it outlives
        // `copy_out`.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_alignment_and_length_is_copied_exactly() {
        let data: Vec<u8> = (0..100u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&data).unwrap();
        let map = Mapping::new(&file, NonZeroUsize::new(data.len()).unwrap()).unwrap();
        for start in 0..=data.len() {
            for end in start..=data.len() {
                let mut copy = vec![0xff; end - start];
                map.copy_out(start, &mut copy).unwrap();
                assert_eq!(copy, data[start..end]);
            }
        }
        assert_eq!(map.copy_out(93, &mut [0; 8]), Err(OutOfRange));
        assert_eq!(map.copy_out(usize::MAX, &mut [0; 8]), Err(OutOfRange));
    }
}
