// SPDX-License-Identifier: GPL-2.0

//! Jump tables of `switch`.

use super::Surroundings;
use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;

/// A table of addresses of 8 bytes, in data that is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    at: u64,
}

/// More entries than a `switch` of a kernel has.
const MOST_ENTRIES: u64 = 4096;

impl Table {
    /// Returns the table of `jmp *table(,%index,8)`.
    pub(super) fn of(insn: &Insn) -> Option<Self> {
        let Flow::Jump(Target::Memory(memory)) = insn.flow() else {
            return None;
        };
        let plain = memory.base.is_none() && !memory.rip_relative && !memory.truncated;
        let by_index = matches!(memory.index, Some((_, 3))) && memory.segment.is_none();
        (plain && by_index).then_some(Self {
            at: u64::from_le_bytes(memory.displacement.to_le_bytes()),
        })
    }

    /// Returns its entries. The end is unknown: the caller stops at the first invalid one.
    pub(super) fn entries<'a, S: Surroundings>(
        &self,
        surroundings: &'a S,
    ) -> impl Iterator<Item = u64> + 'a {
        let at = self.at;
        (0..MOST_ENTRIES).map_while(move |number| {
            let mut entry = [0; 8];
            let place = at.wrapping_add(number.wrapping_mul(8));
            surroundings
                .rodata(place, &mut entry)
                .then(|| u64::from_le_bytes(entry))
        })
    }
}
