// SPDX-License-Identifier: GPL-2.0

//! Merges counters of the kinds that have equally many in every file.

use super::format::value;
use super::format::COUNTER;
use super::version::Kind;

/// Maximum number of counters in a group.
const MAX_GROUP: usize = 9;
/// Values of such a group, each with its count, after one counter with another meaning.
const VALUES: usize = 4;

/// Merges the counters of `from` into `to`.
pub(super) fn merge(kind: Kind, to: &mut [u8], from: &[u8]) {
    match kind {
        Kind::Add => each(to, from, u64::wrapping_add),
        Kind::Or => each(to, from, |a, b| a | b),
        Kind::Earliest => each(to, from, |a, b| match (a, b) {
            (0, other) | (other, 0) => other,
            (a, b) => a.min(b),
        }),
        Kind::Single => grouped::<3>(to, from, single),
        Kind::TopCalls => grouped::<MAX_GROUP>(to, from, top_calls),
        Kind::TopFour => grouped::<MAX_GROUP>(to, from, top_four),
        // These have lengths of their own, and are merged elsewhere.
        Kind::TopList => (),
    }
}

fn each(to: &mut [u8], from: &[u8], of: impl Fn(u64, u64) -> u64) {
    let pairs = to.chunks_exact_mut(COUNTER).zip(from.chunks_exact(COUNTER));
    for (to, from) in pairs {
        to.copy_from_slice(&of(value(to), value(from)).to_le_bytes());
    }
}

fn grouped<const N: usize>(to: &mut [u8], from: &[u8], of: impl Fn(&mut [u64; N], &[u64; N])) {
    let len = N.saturating_mul(COUNTER);
    for (to, from) in to.chunks_exact_mut(len).zip(from.chunks_exact(len)) {
        let (mut ours, mut theirs) = ([0; N], [0; N]);
        for (words, bytes) in [(&mut ours, &*to), (&mut theirs, from)] {
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(COUNTER)) {
                *word = value(bytes);
            }
        }
        of(&mut ours, &theirs);
        for (bytes, word) in to.chunks_exact_mut(COUNTER).zip(ours) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Keeps the value that was seen more often; reduces its lead by the count of the other value.
fn single(to: &mut [u64; 3], from: &[u64; 3]) {
    let ([value, count, all], [other, others, seen]) = (to, *from);
    if *value == other {
        *count = count.wrapping_add(others);
    } else if others > *count {
        *value = other;
        *count = others.wrapping_sub(*count);
    } else {
        *count = count.wrapping_sub(others);
    }
    *all = all.wrapping_add(seen);
}

/// Keeps the four most frequent calls of both.
fn top_calls(to: &mut [u64; MAX_GROUP], from: &[u64; MAX_GROUP]) {
    let mut all = [[0; 2]; 2 * VALUES];
    let mut len: usize = 0;
    let (_dropped, ours) = to.split_first().unwrap_or((&0, &[]));
    let (_, theirs) = from.split_first().unwrap_or((&0, &[]));
    for pair in ours.chunks_exact(2).chain(theirs.chunks_exact(2)) {
        let [value, count] = pair.try_into().unwrap_or([0; 2]);
        let known = all.get_mut(..len).unwrap_or_default();
        if let Some([_, sum]) = known.iter_mut().find(|[known, _]| *known == value) {
            *sum = count.wrapping_add(*sum);
        } else if let Some(place) = all.get_mut(len) {
            *place = [value, count];
            len = len.saturating_add(1);
        }
    }
    let places = to.split_first_mut().map(|(_, places)| places);
    for place in places.unwrap_or_default().chunks_exact_mut(2) {
        // The first among equally frequent ones.
        let most = all.iter_mut().rev().max_by_key(|[_, count]| *count);
        if let Some(most) = most {
            place.copy_from_slice(most);
            *most = [0; 2];
        }
    }
}

/// Keeps the values of both, if they are at most four. Otherwise keeps the most frequent ones, and
/// makes the total negative.
fn top_four(to: &mut [u64; MAX_GROUP], from: &[u64; MAX_GROUP]) {
    let ([all, ours @ ..], [seen, theirs @ ..]) = (to, from);
    let [total, seen] = [*all, *seen].map(|n| i64::from_ne_bytes(n.to_ne_bytes()));
    let mut dropped = total < 0 || seen < 0;
    for pair in theirs.chunks_exact(2) {
        let [value, count] = pair.try_into().unwrap_or([0; 2]);
        if count == 0 {
            continue;
        }
        let mut places = ours.chunks_exact_mut(2);
        if let Some([_, n]) = places.find(|place| place.starts_with(&[value])) {
            *n = n.wrapping_add(count);
            continue;
        }
        let places = ours.chunks_exact_mut(2);
        let rarest = places.min_by_key(|place| place.last().copied());
        let Some([known, n]) = rarest else { continue };
        dropped |= *n != 0;
        if count > *n {
            (*known, *n) = (value, count);
        } else {
            *n = n.wrapping_sub(count);
        }
    }
    let total = total.wrapping_abs().wrapping_add(seen.wrapping_abs());
    let total = if dropped { total.wrapping_neg() } else { total };
    *all = u64::from_ne_bytes(total.to_ne_bytes());
}
