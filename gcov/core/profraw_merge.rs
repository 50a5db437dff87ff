// SPDX-License-Identifier: GPL-2.0

//! Merges two profiles of one image: of a module that was loaded again.

use super::format::value;
use super::profraw::padding;
use super::profraw::ProfileRecord;
use super::profraw::HEADER_WORDS;
use super::profraw::MAGIC;
use super::profraw::RECORD;

/// Error for profiles of different images, or for bytes that are not a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilesDiffer;

/// Parts of a profile from [`Profile::write`](super::Profile::write).
struct Parts {
    version: u64,
    /// Distances of counters and bits from the records, which may differ from one load to the next.
    distances: [u64; 2],
    /// End of each section, and start of the next one.
    data_end: usize,
    counters_end: usize,
    bits: usize,
    bits_end: usize,
    names: usize,
    names_end: usize,
}

impl Parts {
    fn of(profile: &[u8]) -> Option<Self> {
        let header = HEADER_WORDS.checked_mul(8)?;
        let mut words = [0; HEADER_WORDS];
        let bytes = profile.get(..header)?;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = value(bytes);
        }
        let [magic, version, ids, n_data, before, n_counters, _, n_bits, ..] = words;
        let [_, _, _, _, _, _, _, _, _, n_names, counters, bits, ..] = words;
        if magic != MAGIC || ids != 0 || before != 0 {
            return None;
        }
        let [n_data, n_counters, n_bits, n_names] =
            [n_data, n_counters, n_bits, n_names].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let data_end = header.checked_add(n_data.checked_mul(RECORD)?)?;
        let counters_end = data_end.checked_add(n_counters.checked_mul(8)?)?;
        let bits_end = counters_end.checked_add(n_bits)?;
        let names = bits_end.checked_add(padding(n_bits))?;
        let names_end = names.checked_add(n_names)?;
        let end = names_end.checked_add(padding(n_names))?;
        (end == profile.len()).then_some(Self {
            version,
            distances: [counters, bits],
            data_end,
            counters_end,
            bits: counters_end,
            bits_end,
            names,
            names_end,
        })
    }

    /// Returns the records, each with the offsets of its counters and bits in their sections.
    fn records<'p>(&self, profile: &'p [u8]) -> impl Iterator<Item = ([u64; 4], [u32; 2])> + 'p {
        let header = HEADER_WORDS.saturating_mul(8);
        let data = profile.get(header..self.data_end).unwrap_or_default();
        let [counters, bits] = self.distances;
        (0_u64..)
            .zip(data.chunks_exact(RECORD))
            .map(move |(index, bytes)| {
                let record = ProfileRecord::new(bytes.try_into().unwrap_or(&[0; RECORD]));
                let before = index.wrapping_mul(64);
                let start = |distance: u64, section: u64| {
                    distance.wrapping_add(before).wrapping_sub(section)
                };
                let [name, hash] = record.hashes;
                let bits = match record.n_bits {
                    0 => 0,
                    _ => start(record.bits, bits),
                };
                let starts = [name, hash, start(record.counters, counters), bits];
                (starts, [record.n_counters, record.n_bits])
            })
    }

    fn names<'p>(&self, profile: &'p [u8]) -> &'p [u8] {
        profile.get(self.names..self.names_end).unwrap_or_default()
    }
}

/// Returns true if these bytes are a profile, and not a file of `gcov`.
pub fn is_profile(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Returns the counters of a profile from [`Profile::write`](super::Profile::write), in order.
pub fn profile_counters(profile: &[u8]) -> Option<impl Iterator<Item = u64> + '_> {
    let parts = Parts::of(profile)?;
    let counters = profile.get(parts.data_end..parts.counters_end)?;
    Some(counters.chunks_exact(8).map(value))
}

/// Replaces the counters of a profile.
///
/// # Errors
///
/// The bytes are not a profile, or have another number of counters.
pub fn set_profile_counters(profile: &mut [u8], counters: &[u64]) -> Result<(), ProfilesDiffer> {
    let parts = Parts::of(profile).ok_or(ProfilesDiffer)?;
    let places = profile.get_mut(parts.data_end..parts.counters_end);
    let places = places.ok_or(ProfilesDiffer)?.chunks_exact_mut(8);
    if places.len() != counters.len() {
        return Err(ProfilesDiffer);
    }
    for (place, counter) in places.zip(counters) {
        place.copy_from_slice(&counter.to_le_bytes());
    }
    Ok(())
}

/// Returns the names of a profile's functions, as the image or module has them. Returns `None` if
/// the bytes are not a profile.
pub fn profile_names(profile: &[u8]) -> Option<&[u8]> {
    Parts::of(profile).map(|parts| parts.names(profile))
}

/// Merges the counts of the profile `from` into `to`: adds counters, and sets all bits that either
/// has.
pub fn merge_profiles(to: &mut [u8], from: &[u8]) -> Result<(), ProfilesDiffer> {
    let (ours, theirs) = match (Parts::of(to), Parts::of(from)) {
        (Some(ours), Some(theirs)) => (ours, theirs),
        _ => return Err(ProfilesDiffer),
    };
    let same = ours.version == theirs.version
        && ours.counters_end == theirs.counters_end
        && ours.bits_end == theirs.bits_end
        && ours.names(to) == theirs.names(from)
        && ours.records(to).eq(theirs.records(from));
    if !same {
        return Err(ProfilesDiffer);
    }
    let counters = ours.data_end..ours.counters_end;
    let theirs = from.get(counters.clone()).unwrap_or_default();
    let places = to.get_mut(counters).unwrap_or_default();
    for (place, more) in places.chunks_exact_mut(8).zip(theirs.chunks_exact(8)) {
        let sum = value(place).wrapping_add(value(more));
        place.copy_from_slice(&sum.to_le_bytes());
    }
    let bits = ours.bits..ours.bits_end;
    let theirs = from.get(bits.clone()).unwrap_or_default();
    for (place, more) in to.get_mut(bits).unwrap_or_default().iter_mut().zip(theirs) {
        *place |= more;
    }
    Ok(())
}
