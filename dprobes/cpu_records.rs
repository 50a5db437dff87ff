// SPDX-License-Identifier: GPL-2.0

//! Records that wait until the probed instruction is executed.
//!
//! At an ftrace site nothing waits.
//!
//! All points of an instruction are told before it, then it is executed, then all are told after it: so each of them may have a
//! record. If it faults, none is told, and the records stay. Each point therefore forgets, before the instruction, what it has left
//! itself, and what points of other instructions have, whether its program then runs or not: so what a point finds after the
//! instruction is of this very execution. A fault within the instruction that hits another instruction loses nothing, as the first
//! is then executed again, and hit again.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::FIELDS_LEN;
use ferro_core::rpn::LOG_MAX;
use ferro_core::rpn::RECORD_LEN;

/// The most bytes of a record: with all fields, a full log with an exception after it, and a full trace.
pub(crate) const RECORD_MAX: usize = RECORD_LEN + FIELDS_LEN + 2 * LOG_MAX as usize + 32;

/// Bytes of all records of a CPU: of one that is as long as can be, and of many that are not.
const BYTES: usize = 16 * 1024;

const _: () = assert!(BYTES >= HEAD + RECORD_MAX);

/// Bytes before each record: whose it is, and its length.
const HEAD: usize = 2 * WORD;
const WORD: usize = size_of::<usize>();

/// A CPU's records. Memory that is all zero has none.
pub(crate) struct Pending {
    /// The instruction that they are of.
    address: usize,
    /// Bytes that there are.
    len: usize,
    bytes: [u8; BYTES],
}

impl Pending {
    /// A point has been hit, before the instruction at an address.
    #[inline(always)]
    pub(crate) fn begin(&mut self, owner: usize, address: usize) {
        if self.len != 0 {
            self.forget(owner, address);
        }
        self.address = address;
    }

    /// Forgets what was not completed.
    #[inline(never)]
    fn forget(&mut self, owner: usize, address: usize) {
        match self.address == address {
            true => self.take(owner, |_| ()),
            false => self.clear(),
        }
    }

    /// Forgets all records.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for a point's record of `len` bytes, all of which the caller fills. `None` if those of others leave too little.
    #[inline(always)]
    pub(crate) fn room(&mut self, owner: usize, len: usize) -> Option<&mut [u8]> {
        let end = self.len.checked_add(HEAD)?.checked_add(len)?;
        let room = self.bytes.get_mut(self.len..end)?;
        let (first, rest) = room.split_first_chunk_mut::<WORD>()?;
        let (second, rest) = rest.split_first_chunk_mut::<WORD>()?;
        (*first, *second) = (owner.to_ne_bytes(), len.to_ne_bytes());
        self.len = end;
        Some(rest)
    }

    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A point has been hit as with [`Pending::begin`], where there is none. Room for its record of `len` bytes, all of which the
    /// caller fills: where that is does not depend on anything.
    #[inline(always)]
    pub(crate) fn first(&mut self, owner: usize, address: usize, len: usize) -> Option<&mut [u8]> {
        self.address = address;
        self.len = 0;
        self.room(owner, len)
    }

    /// Takes the record of a point, if it has one.
    #[inline(always)]
    pub(crate) fn take(&mut self, owner: usize, take: impl FnOnce(&[u8])) {
        match self.only(owner) {
            Some(record) => {
                take(record);
                self.clear();
            }
            None => self.take_one(owner, take),
        }
    }

    /// The record of a point, if it has one, and no other has.
    #[inline(always)]
    fn only(&self, owner: usize) -> Option<&[u8]> {
        let (head, rest) = self.bytes.split_first_chunk::<HEAD>()?;
        // Where there is none, this is a very large number.
        let record = rest.get(..self.len.wrapping_sub(HEAD))?;
        let (whose, len) = words(head)?;
        (whose == owner && len == record.len()).then_some(record)
    }

    /// The same where others have some, or it has none.
    #[inline(never)]
    fn take_one(&mut self, owner: usize, take: impl FnOnce(&[u8])) {
        let mut start = 0usize;
        while let Some((whose, len)) = self.head(start) {
            let data = start.saturating_add(HEAD);
            let end = data.saturating_add(len);
            if whose == owner {
                take(self.bytes.get(data..end).unwrap_or_default());
                self.remove(start, end);
                return;
            }
            start = end;
        }
    }

    /// The head of the record that begins there.
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

/// The words that begin there: whose a record is, and its length.
#[inline(always)]
fn words(head: &[u8]) -> Option<(usize, usize)> {
    let (owner, rest) = head.split_first_chunk::<WORD>()?;
    let len = rest.first_chunk::<WORD>()?;
    Some((usize::from_ne_bytes(*owner), usize::from_ne_bytes(*len)))
}
