// SPDX-License-Identifier: GPL-2.0

//! Most frequent values, since GCC 11. In a file each list is a total, a length, and as many pairs
//! of a value and its count.

use super::format::value;
use super::format::COUNTER;
use super::write_buf::NoRoom;
use super::write_buf::Output;

/// Maximum number of values that GCC keeps in a list.
const MAX_VALUES: usize = 32;

/// A list of a file.
pub(super) struct List<'b> {
    /// Number of values that were seen; negative if some of them are in no list.
    total: i64,
    pairs: &'b [u8],
}

/// A value and its count.
#[derive(Clone, Copy)]
struct Pair {
    value: u64,
    count: u64,
}

/// Takes a list from the start of `bytes`.
pub(super) fn take_list<'b>(bytes: &mut &'b [u8]) -> Option<List<'b>> {
    let (total, rest) = bytes.split_first_chunk::<COUNTER>()?;
    let (len, rest) = rest.split_first_chunk::<COUNTER>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (pairs, rest) = rest.split_at_checked(len.checked_mul(2 * COUNTER)?)?;
    *bytes = rest;
    Some(List {
        total: i64::from_le_bytes(*total),
        pairs,
    })
}

/// Returns true if the bytes are lists.
pub(super) fn are_lists(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if take_list(&mut bytes).is_none() {
            return false;
        }
    }
    true
}

impl List<'_> {
    fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        self.pairs.chunks_exact(2 * COUNTER).map(|pair| {
            let (value_bytes, count) = pair.split_at_checked(COUNTER).unwrap_or_default();
            Pair {
                value: value(value_bytes),
                count: value(count),
            }
        })
    }
}

/// Values of several lists.
struct Merged {
    pairs: [Pair; MAX_VALUES],
    len: usize,
    /// True if a value was dropped.
    full: bool,
}

impl Merged {
    fn add(&mut self, new: Pair) {
        let pairs = self.pairs.get_mut(..self.len).unwrap_or_default();
        if let Some(pair) = pairs.iter_mut().find(|pair| pair.value == new.value) {
            pair.count = pair.count.wrapping_add(new.count);
            return;
        }
        if let Some(place) = self.pairs.get_mut(self.len) {
            *place = new;
            self.len = self.len.saturating_add(1);
            return;
        }
        // As in GCC: the rarest value becomes rarer, and is replaced by one that is more frequent
        // then.
        self.full = true;
        if let Some(rarest) = self.pairs.iter_mut().min_by_key(|pair| pair.count) {
            rarest.count = rarest.count.saturating_sub(1);
            if rarest.count < new.count {
                *rarest = new;
            }
        }
    }
}

/// Writes a list with the values of both lists.
pub(super) fn merge(a: &List<'_>, b: &List<'_>, to: &mut Output<'_>) -> Result<(), NoRoom> {
    let mut merged = Merged {
        pairs: [Pair { value: 0, count: 0 }; MAX_VALUES],
        len: 0,
        full: a.total < 0 || b.total < 0,
    };
    for pair in a.pairs().chain(b.pairs()) {
        merged.add(pair);
    }
    let total = a.total.wrapping_abs().wrapping_add(b.total.wrapping_abs());
    let total = if merged.full {
        total.wrapping_neg()
    } else {
        total
    };
    to.bytes(&total.to_le_bytes())?;
    to.u64(u64::try_from(merged.len).unwrap_or(u64::MAX))?;
    for pair in merged.pairs.iter().take(merged.len) {
        to.u64(pair.value)?;
        to.u64(pair.count)?;
    }
    Ok(())
}
