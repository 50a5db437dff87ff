// SPDX-License-Identifier: GPL-2.0

//! Records of a CPU that wait until the probed instruction is executed.
//!
//! An ftrace site cannot fault: a record waits there only if the program may change the instruction
//! pointer.
//!
//! All points of an instruction are called before it, and again after it, so each of them may have
//! a record. If the instruction faults, no point is called after it, and the records stay. Before
//! the instruction each point therefore drops its own old record, and the records of other
//! instructions, even if its program does not run. The record that a point finds after the
//! instruction is thus always from this execution. If a fault within the instruction leads to a hit
//! of another instruction, nothing is lost: the first instruction is executed, and hit, again.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_dprobes_core::FIELDS_LEN;
use ferro_dprobes_core::LOG_MAX;
use ferro_dprobes_core::RECORD_LEN;
use kernel::prelude::*;

use crate::raw::scratch::PendingRecords;

/// Maximum number of bytes of a record: with all fields, a full log with an exception after it, and
/// a full trace.
pub(crate) const RECORD_MAX: usize = RECORD_LEN + FIELDS_LEN + 2 * LOG_MAX as usize + 32;

/// Bytes of all records of a CPU: enough for the longest one, or for many usual ones.
const BYTES: usize = 16 * 1024;

const _: () = assert!(BYTES >= HEAD + RECORD_MAX);

/// Number of bytes before each record, for the number of its point and its length.
const HEAD: usize = 2 * WORD;
const WORD: usize = size_of::<usize>();

/// Pending records of a CPU. Zeroed memory has no record.
#[derive(Zeroable)]
pub(crate) struct CpuRecords {
    /// Address of the instruction that they belong to.
    address: usize,
    /// Bytes in use.
    len: usize,
    bytes: [u8; BYTES],
}

impl CpuRecords {
    /// Handles a hit of a point before the instruction at an address: drops records that did not
    /// complete.
    #[inline(always)]
    pub(crate) fn begin(&mut self, owner: usize, address: usize) {
        if self.len != 0 {
            self.drop_incomplete(owner, address);
        }
        self.address = address;
    }

    /// Drops records that did not complete.
    #[inline(never)]
    fn drop_incomplete(&mut self, owner: usize, address: usize) {
        match self.address == address {
            true => self.take(owner, |_| ()),
            false => self.clear(),
        }
    }

    /// Returns room for a point's record of `len` bytes, which the caller fills completely. `None`
    /// if the records of other points leave too little.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, owner: usize, len: usize) -> Option<&mut [u8]> {
        let end = self.len.checked_add(HEAD)?.checked_add(len)?;
        let room = self.bytes.get_mut(self.len..end)?;
        let (first, rest) = room.split_first_chunk_mut::<WORD>()?;
        let (second, rest) = rest.split_first_chunk_mut::<WORD>()?;
        (*first, *second) = (owner.to_ne_bytes(), len.to_ne_bytes());
        self.len = end;
        Some(rest)
    }

    /// Returns true if there is no record.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls [`CpuRecords::begin`] and [`CpuRecords::reserve`] in effect, for a CPU without
    /// records. The room is always at the same address.
    #[inline(always)]
    pub(crate) fn reserve_first(
        &mut self,
        owner: usize,
        address: usize,
        len: usize,
    ) -> Option<&mut [u8]> {
        self.address = address;
        self.len = 0;
        self.reserve(owner, len)
    }

    /// Takes the record of a point, if it has one.
    #[inline(always)]
    pub(crate) fn take(&mut self, owner: usize, take: impl FnOnce(&[u8])) {
        match self.sole(owner) {
            Some(record) => {
                take(record);
                self.clear();
            }
            None => self.search_and_take(owner, take),
        }
    }

    /// Returns the record of a point, if no other record waits.
    #[inline(always)]
    fn sole(&self, owner: usize) -> Option<&[u8]> {
        let (head, rest) = self.bytes.split_first_chunk::<HEAD>()?;
        // Very large if there is no record.
        let record = rest.get(..self.len.wrapping_sub(HEAD))?;
        let (holder, len) = words(head)?;
        (holder == owner && len == record.len()).then_some(record)
    }

    /// Takes the record of a point among records of other points, if it has one.
    #[inline(never)]
    fn search_and_take(&mut self, owner: usize, take: impl FnOnce(&[u8])) {
        let mut start = 0usize;
        while let Some((holder, len)) = self.head(start) {
            let data = start.saturating_add(HEAD);
            let end = data.saturating_add(len);
            if holder == owner {
                take(self.bytes.get(data..end).unwrap_or_default());
                self.remove(start, end);
                return;
            }
            start = end;
        }
    }

    /// Returns the head of the record at `start`.
    #[inline(always)]
    fn head(&self, start: usize) -> Option<(usize, usize)> {
        words(self.bytes.get(start..self.len)?)
    }

    #[inline(always)]
    fn remove(&mut self, start: usize, end: usize) {
        if end < self.len && start < end {
            self.bytes.copy_within(end..self.len, start);
        }
        self.len = self.len.saturating_sub(end.saturating_sub(start));
    }
}

impl PendingRecords for CpuRecords {
    #[inline(always)]
    fn clear(&mut self) {
        self.len = 0;
    }
}

/// Returns the words of a head: number of the point, and length of the record.
#[inline(always)]
fn words(head: &[u8]) -> Option<(usize, usize)> {
    let (owner, rest) = head.split_first_chunk::<WORD>()?;
    let len = rest.first_chunk::<WORD>()?;
    Some((usize::from_ne_bytes(*owner), usize::from_ne_bytes(*len)))
}
