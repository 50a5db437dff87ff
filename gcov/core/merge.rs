// SPDX-License-Identifier: GPL-2.0

//! Merges two `gcda` files of one object, for example of a module that was loaded again, of an
//! object in two modules, or of two runs.
//!
//! Counters are merged by their kind, as by GCC's own runtime for an existing file. Mainline adds
//! all of them, which is wrong for bits (conditions, paths, common bits of values), for times, and
//! for the values of lists and the like.

use super::counter_merge;
use super::format::counters_len;
use super::format::counters_tag;
use super::format::COUNTER;
use super::format::FUNCTION_WORDS;
use super::format::MAGIC;
use super::format::SUMMARY_WORDS;
use super::format::TAG_FUNCTION;
use super::format::TAG_OBJECT_SUMMARY;
use super::read::Gcda;
use super::read::Summary;
use super::record::Counters;
use super::record::Record;
use super::topn;
use super::topn::take_list;
use super::version::Format;
use super::version::Kind;
use super::write_buf::NoRoom;
use super::write_buf::Output;
use core::fmt;

/// Reason why two files are not merged. Functions are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// The compilers differ.
    Version,
    /// The compilations differ.
    Stamp,
    /// The objects differ.
    Checksum,
    /// The numbers of functions differ.
    Functions,
    /// The functions with this index, or their counters, differ.
    Function(u32),
    /// The buffer is too small.
    NoRoom,
}

impl From<NoRoom> for MergeError {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => f.write_str("the versions differ"),
            Self::Stamp => f.write_str("the stamps differ"),
            Self::Checksum => f.write_str("the checksums differ"),
            Self::Functions => f.write_str("the numbers of functions differ"),
            Self::Function(index) => write!(f, "function {index} differs"),
            Self::NoRoom => f.write_str("the buffer is too small"),
        }
    }
}

/// Merges two files into the start of `to`, and returns the length of the result. The sum of both
/// lengths is always enough for `to`.
///
/// The result also has functions that only one file has. If a list is full, or two values compete
/// for the same place, values of `a` count as the older ones.
pub fn merge(a: &Gcda<'_>, b: &Gcda<'_>, to: &mut [u8]) -> Result<usize, MergeError> {
    if a.version() != b.version() {
        return Err(MergeError::Version);
    }
    if a.stamp() != b.stamp() {
        return Err(MergeError::Stamp);
    }
    if a.checksum() != b.checksum() {
        return Err(MergeError::Checksum);
    }
    let format = a.format();
    let mut to = Output::new(to);
    to.u32(MAGIC)?;
    to.u32(a.version().word())?;
    to.u32(a.stamp())?;
    if format.checksum {
        to.u32(a.checksum())?;
    }
    merge_summaries(format, a.summary(), b.summary(), &mut to)?;
    let (mut ours, mut theirs) = (a.functions(), b.functions());
    let mut index: u32 = 0;
    loop {
        match (ours.next(), theirs.next()) {
            (Some(a), Some(b)) => merge_functions(format, index, &a, &b, &mut to)?,
            (None, None) => break,
            _ => return Err(MergeError::Functions),
        }
        index = index.saturating_add(1);
    }
    to.zeros(a.end().max(b.end()))?;
    Ok(to.len())
}

fn merge_summaries(
    format: &Format,
    a: Option<Summary>,
    b: Option<Summary>,
    to: &mut Output<'_>,
) -> Result<(), NoRoom> {
    if a.is_none() && b.is_none() {
        return Ok(());
    }
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    to.u32(TAG_OBJECT_SUMMARY)?;
    to.u32(format.unit.of_words(SUMMARY_WORDS))?;
    to.u32(a.runs.saturating_add(b.runs))?;
    to.u32(a.sum_max.saturating_add(b.sum_max))
}

fn merge_functions(
    format: &Format,
    index: u32,
    a: &Record<'_>,
    b: &Record<'_>,
    to: &mut Output<'_>,
) -> Result<(), MergeError> {
    to.u32(TAG_FUNCTION)?;
    let (identity, both) = match (a.identity, b.identity) {
        (Some(a), Some(b)) if a == b => (a, true),
        (Some(_), Some(_)) => return Err(MergeError::Function(index)),
        (Some(one), None) | (None, Some(one)) => (one, false),
        (None, None) => return Ok(to.u32(0)?),
    };
    to.u32(format.unit.of_words(FUNCTION_WORDS))?;
    to.u32(identity.ident)?;
    to.u32(identity.lineno_checksum)?;
    to.u32(identity.cfg_checksum)?;
    if !both {
        for counters in a.sets().chain(b.sets()) {
            copy(format, &counters, to)?;
        }
        return Ok(());
    }
    let (mut ours, mut theirs) = (a.sets(), b.sets());
    loop {
        match (ours.next(), theirs.next()) {
            (Some(a), Some(b)) if a.index == b.index => {
                merge_counters(format, index, &a, &b, to)?;
            }
            (None, None) => return Ok(()),
            _ => return Err(MergeError::Function(index)),
        }
    }
}

/// Writes the tag and the length of counters.
fn head(format: &Format, counters: &Counters<'_>, to: &mut Output<'_>) -> Result<(), MergeError> {
    let len = counters_len(format, counters.count).ok_or(MergeError::NoRoom)?;
    to.u32(counters_tag(counters.index))?;
    to.u32(match counters.bytes {
        Some(_) => len,
        None => len.wrapping_neg(),
    })?;
    Ok(())
}

fn copy(format: &Format, counters: &Counters<'_>, to: &mut Output<'_>) -> Result<(), MergeError> {
    head(format, counters, to)?;
    Ok(to.bytes(counters.bytes.unwrap_or_default())?)
}

fn merge_counters(
    format: &Format,
    index: u32,
    a: &Counters<'_>,
    b: &Counters<'_>,
    to: &mut Output<'_>,
) -> Result<(), MergeError> {
    let differs = MergeError::Function(index);
    if a.kind == Kind::TopList {
        return merge_lists(format, differs, a, b, to);
    }
    if a.count != b.count {
        return Err(differs);
    }
    let (ours, theirs) = match (a.bytes, b.bytes) {
        (Some(ours), Some(theirs)) => (ours, theirs),
        // Merging with zeros changes no kind of counters.
        (Some(_), None) => return copy(format, a, to),
        (None, _) => return copy(format, b, to),
    };
    head(format, a, to)?;
    let place = to.take(ours.len())?;
    place.copy_from_slice(ours);
    counter_merge::merge(a.kind, place, theirs);
    Ok(())
}

fn merge_lists(
    format: &Format,
    differs: MergeError,
    a: &Counters<'_>,
    b: &Counters<'_>,
    to: &mut Output<'_>,
) -> Result<(), MergeError> {
    to.u32(counters_tag(a.index))?;
    let len_at = to.len();
    to.u32(0)?;
    let start = to.len();
    let (mut ours, mut theirs) = (a.bytes.unwrap_or_default(), b.bytes.unwrap_or_default());
    while !ours.is_empty() {
        match (take_list(&mut ours), take_list(&mut theirs)) {
            (Some(a), Some(b)) => topn::merge(&a, &b, to)?,
            _ => return Err(differs),
        }
    }
    if !theirs.is_empty() {
        return Err(differs);
    }
    let count = to.len().saturating_sub(start) / COUNTER;
    let count = u32::try_from(count).map_err(|_| MergeError::NoRoom)?;
    let len = counters_len(format, count).ok_or(MergeError::NoRoom)?;
    Ok(to.replace_u32(len_at, len)?)
}
