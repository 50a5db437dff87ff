// SPDX-License-Identifier: GPL-2.0

//! Mappings of relay files. The only unsafe code of the command.
//!
//! The kernel writes into the mapped memory while it is being read. A `&[u8]` would promise the
//! compiler that the bytes do not change, so none is ever made: words are loaded as atomics; bytes
//! are copied out with volatile reads, or passed to write(2) by their address. Such a copy can be
//! torn, which is harmless: the caller knows from the kernel's counts which bytes do not change, or
//! checks afterwards whether they did. Any byte pattern is a valid integer.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::MapFlags;
use nix::sys::mman::ProtFlags;
use nix::sys::mman::mmap;
use nix::sys::mman::munmap;
use nix::sys::statfs;
use nix::sys::statfs::FsType;

use crate::kernel_dir::MAGIC;

/// A part of a relay file, mapped for reading.
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

/// A part of a relay file, mapped for reading and writing.
///
/// # Invariants
///
/// The mapping is writable.
#[derive(Debug)]
pub struct WritableMapping(Mapping);

/// A range that is not inside the mapping, or a word that is not aligned.
#[derive(Debug, PartialEq, Eq)]
pub struct OutOfRange;

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`.
    ///
    /// The caller has made sure that the file is that long, see [`holds`]; accessing a page beyond
    /// the end of a shorter one causes SIGBUS.
    pub fn new(file: &File, len: NonZeroUsize) -> nix::Result<Self> {
        Self::with(file, 0, len, ProtFlags::PROT_READ)
    }

    fn with(file: &File, offset: i64, len: NonZeroUsize, prot: ProtFlags) -> nix::Result<Self> {
        // SAFETY: the kernel chooses a free range of addresses (no MAP_FIXED), so no memory that is
        // in use changes.
        let start = unsafe { mmap(None, len, prot, MapFlags::MAP_SHARED, file, offset)? };
        // INVARIANT: this is the mapping that the kernel has just made, and nothing else refers to
        // it.
        Ok(Self {
            start,
            len: len.get(),
        })
    }

    /// The address of `len` bytes at `offset`, which are inside the mapping.
    fn at(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        let end = offset.checked_add(len).ok_or(OutOfRange)?;
        if end > self.len {
            return Err(OutOfRange);
        }
        Ok(self.start.as_ptr().cast::<u8>().wrapping_add(offset))
    }

    /// The `count` words from `offset` on, which may only be loaded, relaxed.
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64], OutOfRange> {
        let len = count.checked_mul(size_of::<u64>()).ok_or(OutOfRange)?;
        let words = self.at(offset, len)?.cast::<AtomicU64>();
        if !words.is_aligned() {
            return Err(OutOfRange);
        }
        // SAFETY: `words` is aligned, and the range is inside the mapping, which exists as long as
        // `self`. The kernel and other processes write to the words with single instructions.
        // Relaxed loads are allowed on memory that can only be read, and nothing else is done
        // without a `WritableMapping`.
        Ok(unsafe { slice::from_raw_parts(words, count) })
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64, OutOfRange> {
        self.words(offset, 1)?.first().ok_or(OutOfRange)
    }

    /// Loads the word at `offset`, relaxed.
    pub fn load(&self, offset: usize) -> Result<u64, OutOfRange> {
        Ok(self.word(offset)?.load(Ordering::Relaxed))
    }

    /// Copies the bytes from `offset` on until `into` is full.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let mut from = self.at(offset, into.len())?.cast_const();

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
            // SAFETY: the eight bytes at `from` are inside the mapping: the range was checked
            // above, and the invariant says that it is mapped and readable. `from` is aligned,
            // since the head ends at an aligned address.
            let value = unsafe { from.cast::<u64>().read_volatile() };
            word.copy_from_slice(&value.to_ne_bytes());
            from = from.wrapping_add(size_of::<u64>());
        }
        for byte in words.into_remainder() {
            // SAFETY: `from` is inside the mapping: the range was checked above, and the invariant
            // says that it is mapped and readable.
            *byte = unsafe { from.read_volatile() };
            from = from.wrapping_add(1);
        }
        Ok(())
    }

    /// Writes the bytes of all `pieces`, offsets in the mapping, to `file` from `position` on. User
    /// space does not copy them.
    pub fn write_to(
        &self,
        file: &File,
        mut position: u64,
        pieces: &[Range<usize>],
    ) -> io::Result<()> {
        let mut vectors = Vec::with_capacity(pieces.len());
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let start = self.at(piece.start, piece.len());
            vectors.push(libc::iovec {
                iov_base: start.map_err(|_| Errno::ERANGE)?.cast(),
                iov_len: piece.len(),
            });
        }
        while !vectors.is_empty() {
            let count = vectors.len().try_into().map_err(|_| Errno::EINVAL)?;
            let at = position.try_into().map_err(|_| Errno::EOVERFLOW)?;
            // SAFETY: `vectors` are ranges of this mapping, which the kernel only reads.
            let written = unsafe { libc::pwritev(file.as_raw_fd(), vectors.as_ptr(), count, at) };
            match Errno::result(written).map(usize::try_from) {
                Ok(Ok(0) | Err(_)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(Ok(written)) => {
                    advance(&mut vectors, written);
                    position = position.saturating_add(written.try_into().unwrap_or(u64::MAX));
                }
                Err(Errno::EINTR) => (),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Removes `written` bytes from the start of `vectors`.
fn advance(vectors: &mut Vec<libc::iovec>, mut written: usize) {
    let mut whole = 0;
    for vector in vectors.iter_mut() {
        let part = vector.iov_len.min(written);
        written -= part;
        if part < vector.iov_len {
            vector.iov_base = vector.iov_base.wrapping_byte_add(part);
            vector.iov_len -= part;
            break;
        }
        whole += 1;
    }
    vectors.drain(..whole);
}

impl WritableMapping {
    /// Maps `len` bytes of `file` from `offset` on, which is a multiple of a page.
    ///
    /// The caller has made sure that the file is that long, see [`holds`].
    pub fn new(file: &File, offset: i64, len: NonZeroUsize) -> nix::Result<Self> {
        let prot = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // INVARIANT: `prot` makes the mapping writable.
        Mapping::with(file, offset, len, prot).map(Self)
    }

    /// Loads the word at `offset`, relaxed.
    pub fn load(&self, offset: usize) -> Result<u64, OutOfRange> {
        self.0.load(offset)
    }

    /// Stores the word at `offset`, with release.
    pub fn store(&self, offset: usize, value: u64) -> Result<(), OutOfRange> {
        self.0.word(offset)?.store(value, Ordering::Release);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the invariant says that the range is ours; no pointer into it outlives a method.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// Returns true if `len` bytes of `file` can be mapped and accessed. The reported size of a relay
/// file is not that of its buffer, but there mmap checks the length. For an ordinary file mmap does
/// not, and an access beyond the end would kill the process.
pub fn holds(file: &File, len: NonZeroUsize) -> io::Result<bool> {
    // Values of <linux/magic.h>: not every libc has a constant for each.
    const PSEUDO: [FsType; 5] = [
        FsType(0x6462_6720), // debugfs
        FsType(0x7472_6163), // tracefs
        FsType(0x6265_6572), // sysfs
        FsType(0x0000_9fa0), // proc
        MAGIC,               // ferrotrace
    ];
    if PSEUDO.contains(&statfs::fstatfs(file)?.filesystem_type()) {
        return Ok(true);
    }
    let there = file.metadata()?.len();
    Ok(usize::try_from(there).is_ok_and(|there| there >= len.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::io::Write;

    fn mapped(data: &[u8]) -> (File, Mapping) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(data).unwrap();
        let map = Mapping::new(&file, NonZeroUsize::new(data.len()).unwrap()).unwrap();
        (file, map)
    }

    #[test]
    fn every_alignment_and_length_is_copied_exactly() {
        let data: Vec<u8> = (0..100u8).collect();
        let (_file, map) = mapped(&data);
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

    #[test]
    fn words_are_shared() {
        let (file, map) = mapped(&[0; 8192]);
        let page = NonZeroUsize::new(4096).unwrap();
        let consumer = WritableMapping::new(&file, 4096, page).unwrap();
        consumer.store(16, 0x0102_0304_0506_0708).unwrap();
        assert_eq!(map.load(4096 + 16), Ok(0x0102_0304_0506_0708));
        assert_eq!(consumer.load(16), Ok(0x0102_0304_0506_0708));
        assert_eq!(map.load(4), Err(OutOfRange), "not aligned");
        assert_eq!(map.load(8192), Err(OutOfRange));
        assert_eq!(consumer.store(4096, 1), Err(OutOfRange));
    }

    #[test]
    fn pieces_are_written_in_their_order() {
        let data: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let (_file, map) = mapped(&data);
        let pieces: Vec<_> = (0..200).rev().map(|i| i * 20..i * 20 + i % 20).collect();
        let bytes = pieces.iter().flat_map(|piece| &data[piece.clone()]);
        let expected: Vec<u8> = [0; 3].iter().chain(bytes).copied().collect();
        let mut out = tempfile::tempfile().unwrap();
        map.write_to(&out, 3, &pieces).unwrap();
        let mut got = Vec::new();
        out.read_to_end(&mut got).unwrap();
        assert_eq!(got, expected);
        assert!(map.write_to(&out, 0, &[0..1, 4090..4097]).is_err());
    }

    /// Whatever part a write takes, the rest follows.
    #[test]
    fn a_short_write_is_continued() {
        let pieces = [3, 1, 7];
        for first in 1..=11 {
            for second in 1..=11 {
                let mut start = std::ptr::null_mut::<c_void>();
                let mut vectors = Vec::new();
                for len in pieces {
                    vectors.push(libc::iovec {
                        iov_base: start,
                        iov_len: len,
                    });
                    start = start.wrapping_byte_add(len);
                }
                advance(&mut vectors, first);
                advance(&mut vectors, second);
                let left = 11usize.saturating_sub(first + second);
                let lens: usize = vectors.iter().map(|vector| vector.iov_len).sum();
                assert_eq!(lens, left);
                let at = vectors.first().map_or(11, |vector| vector.iov_base.addr());
                assert_eq!(at, 11 - left);
            }
        }
    }

    #[test]
    fn ordinary_files_must_be_long_enough() {
        let (file, _map) = mapped(&[0; 100]);
        assert!(holds(&file, NonZeroUsize::new(100).unwrap()).unwrap());
        assert!(!holds(&file, NonZeroUsize::new(101).unwrap()).unwrap());
        let proc = File::open("/proc/self/environ").unwrap();
        assert!(holds(&proc, NonZeroUsize::MAX).unwrap());
    }
}
