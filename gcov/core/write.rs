// SPDX-License-Identifier: GPL-2.0

//! Writes the data in memory as a `gcda` file.
//!
//! Each counter is copied once, to its place in the file. The copy shows if all are zero. So the
//! file is consistent although other CPUs are counting, and has at most [`Info::max_len`] bytes.

use super::format::counters_len;
use super::format::counters_tag;
use super::format::disk_count;
use super::format::COUNTER;
use super::format::FUNCTION_WORDS;
use super::format::MAGIC;
use super::format::TAG_FUNCTION;
use super::gcc_info::Function;
use super::gcc_info::Info;
use super::gcc_info::Set;
use super::memory::Memory;
use super::refusal::reading;
use super::refusal::Part;
use super::refusal::Refusal;
use super::version::Kind;
use super::write_buf::NoRoom;
use super::write_buf::Output;

impl From<NoRoom> for Refusal {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

impl Info {
    /// Writes the object's file to the start of `to` and returns its length. [`Self::max_len`]
    /// bytes are enough.
    ///
    /// The result is the same as from GCC's own runtime, except for the summary of runs, which a
    /// kernel does not have.
    pub fn write<M: Memory>(&self, memory: &M, to: &mut [u8]) -> Result<usize, Refusal> {
        let format = self.format();
        let mut to = Output::new(to);
        to.words([MAGIC, self.version().word(), self.stamp()])?;
        if format.checksum {
            to.u32(self.checksum())?;
        }
        for function in self.functions(memory) {
            match function? {
                Some(function) => self.write_function(memory, &function, &mut to)?,
                None => to.words([TAG_FUNCTION, 0])?,
            }
        }
        to.u32(0)?;
        Ok(to.len())
    }

    #[inline(always)]
    fn write_function<M: Memory>(
        &self,
        memory: &M,
        function: &Function,
        to: &mut Output<'_>,
    ) -> Result<(), Refusal> {
        let format = self.format();
        to.words([
            TAG_FUNCTION,
            format.unit.of_words(FUNCTION_WORDS),
            function.identity.ident,
            function.identity.lineno_checksum,
            function.identity.cfg_checksum,
        ])?;
        let index = function.index;
        for set in self.sets(memory, function) {
            let set = set?;
            let count = disk_count(set.kind, set.count).ok_or(Refusal::Incomplete(index))?;
            let len = counters_len(format, count).ok_or(Refusal::TooLarge)?;
            to.words([counters_tag(set.index), len])?;
            let start = to.len();
            let is_zero = !copy(memory, index, &set, to)?;
            // Lists always have a length: as in GCC.
            if format.omits_zeros && is_zero && set.kind != Kind::TopList {
                to.truncate(start.saturating_sub(8));
                to.words([counters_tag(set.index), len.wrapping_neg()])?;
            }
        }
        Ok(())
    }
}

/// Copies counters of the function with an index. Returns true if one of them is not 0.
#[inline(always)]
fn copy<M: Memory>(
    memory: &M,
    index: u32,
    set: &Set,
    to: &mut Output<'_>,
) -> Result<bool, Refusal> {
    let part = Part::Counters(index);
    if set.kind == Kind::TopList {
        return copy_lists(memory, part, set, to).map(|()| true);
    }
    let count = usize::try_from(set.count).map_err(|_| Refusal::TooLarge)?;
    let place = to.take(count.checked_mul(COUNTER).ok_or(Refusal::TooLarge)?)?;
    match count {
        0 => Ok(false),
        _ => reading(part, memory.copy_counters(set.address, place)),
    }
}

/// Copies the number of values seen, with an empty list.
///
/// The elements would be allocated by runtime functions that no kernel has, so the lists of a
/// kernel are empty. The word in the place of an address is neither followed nor shown.
#[cold]
fn copy_lists<M: Memory>(
    memory: &M,
    part: Part,
    set: &Set,
    to: &mut Output<'_>,
) -> Result<(), Refusal> {
    for list in 0..set.count / set.kind.group() {
        let offset = u64::from(list).saturating_mul(24);
        let at = set.address.checked_add(offset);
        let at = at.ok_or(Refusal::Unreadable(part))?;
        to.u64(reading(part, memory.u64(at))?)?;
        to.u64(0)?;
    }
    Ok(())
}
