// SPDX-License-Identifier: GPL-2.0

//! Search for all code that may enter a range.

use super::linear_decode::jump_target;
use super::linear_decode::Code;
use super::table::Table;
use super::Entry;
use super::Found;
use super::Piece;
use super::Reason;
use super::Surroundings;
use core::ops::Range;
use ferro_core::insn::Insn;

/// Maximum number of pieces of one body, and of other pieces that are remembered.
const MOST_PIECES: usize = 16;

/// Pieces that fall through or jump to each other: from the first to the last without a gap.
pub(super) struct Body {
    pieces: [Option<Piece>; MOST_PIECES],
    first: u64,
    last: u64,
}

impl Body {
    /// Finds the body of `piece`.
    pub(super) fn of<S: Surroundings>(code: &Code<'_, S>, piece: Piece) -> Result<Self, Reason> {
        let mut body = Self {
            pieces: [None; MOST_PIECES],
            first: piece.start,
            last: piece.end,
        };
        body.add(piece)?;
        let mut lowest = piece;
        while let Some(below) = neighbour(code, lowest.start.wrapping_sub(1)) {
            if below.end != lowest.start || !body.joins(code, below, lowest)? {
                break;
            }
            body.add(below)?;
            lowest = below;
        }
        let mut highest = piece;
        while let Some(above) = neighbour(code, highest.end) {
            if above.start != highest.end || !body.joins(code, highest, above)? {
                break;
            }
            body.add(above)?;
            highest = above;
        }
        Ok(body)
    }

    fn add(&mut self, piece: Piece) -> Result<(), Reason> {
        let mut free = self.pieces.iter_mut().filter(|slot| slot.is_none());
        *free.next().ok_or(Reason::TooLarge)? = Some(piece);
        self.first = self.first.min(piece.start);
        self.last = self.last.max(piece.end);
        Ok(())
    }

    /// Returns true if two neighbours are one function. Exactly one of them is in the body.
    fn joins<S: Surroundings>(
        &self,
        code: &Code<'_, S>,
        lower: Piece,
        upper: Piece,
    ) -> Result<bool, Reason> {
        if code.surroundings.is_compiled(upper.start) {
            return Ok(false);
        }
        // The body has one of the two; the other is below or above it.
        let body = self.first..self.last;
        Ok(match body.contains(&lower.start) {
            true => {
                code.falls_out(lower)?
                    || code.branches_into(upper, &body)?
                    || self.branches_into(code, &(upper.start..upper.end))?
            }
            false => {
                code.falls_out(lower)?
                    || code.branches_into(lower, &body)?
                    || self.branches_into(code, &(lower.start..lower.end))?
            }
        })
    }

    /// Returns true if the body has a jump into a range.
    fn branches_into<S: Surroundings>(
        &self,
        code: &Code<'_, S>,
        range: &Range<u64>,
    ) -> Result<bool, Reason> {
        for piece in self.pieces.iter().flatten() {
            if code.branches_into(*piece, range)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn contains(&self, address: u64) -> bool {
        (self.first..self.last).contains(&address)
    }

    /// Returns true for the address after the last byte. Tables of clang have it for unreachable
    /// entries, so it does not end a table.
    fn ends_at(&self, address: u64) -> bool {
        address == self.last
    }

    /// Calls `visit` with everything that is found, until it fails.
    pub(super) fn search<S: Surroundings>(
        &self,
        code: &Code<'_, S>,
        visit: impl FnMut(Found) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        let mut search = Search {
            code,
            body: self,
            visit,
            seen: [None; MOST_PIECES],
            looked: 0,
        };
        for piece in self.pieces.iter().flatten() {
            search.piece(*piece)?;
        }
        Ok(())
    }
}

/// `std`
fn sets_direction(insn: &Insn) -> bool {
    insn.map() == 0 && insn.opcode() == 0xfd
}

/// Returns the symbol at an address next to another.
fn neighbour<S: Surroundings>(code: &Code<'_, S>, address: u64) -> Option<Piece> {
    code.surroundings.piece(address)
}

/// A search for entries into a body.
struct Search<'c, 's, S, V> {
    code: &'c Code<'s, S>,
    body: &'c Body,
    visit: V,
    /// Pieces outside of the body that were found; not all, if there are many.
    seen: [Option<Piece>; MOST_PIECES],
    /// Number of these that have been searched.
    looked: usize,
}

impl<S: Surroundings, V: FnMut(Found) -> Result<(), Reason>> Search<'_, '_, S, V> {
    /// Searches a piece of the body, and its jump targets.
    fn piece(&mut self, piece: Piece) -> Result<(), Reason> {
        let code = self.code;
        let compiled = code.surroundings.is_compiled(self.body.first);
        code.sweep(piece, |at, insn| {
            (self.visit)(Found::Start(at))?;
            if sets_direction(insn) {
                return Err(Reason::Direction);
            }
            self.operands(at, insn)?;
            if let Some(target) = jump_target(at, insn) {
                self.outside(target)?;
            }
            if !code.is_indirect_jump(at, insn) {
                return Ok(());
            }
            match Table::of(insn) {
                Some(table) => self.table(table),
                // It jumps out of the function.
                None if compiled && !code.surroundings.has_jump_tables() => Ok(()),
                None => Err(Reason::IndirectJump),
            }
        })?;
        let mut result = Ok(());
        let range = piece.start..piece.end;
        code.surroundings.exits(range, &mut |target| {
            if result.is_ok() {
                result = self.outside(target);
            }
        });
        result
    }

    /// Visits the destination of an instruction, and operands that may be addresses.
    fn operands(&mut self, at: u64, insn: &Insn) -> Result<(), Reason> {
        let number = |value: i64| u64::from_le_bytes(value.to_le_bytes());
        if let Some(target) = insn.branch_target(at) {
            return self.entered(target, Entry::Branch);
        }
        if let Some(used) = insn.rip_relative_target(at) {
            self.entered(used, Entry::Address)?;
        }
        self.entered(number(insn.immediate()), Entry::Address)?;
        match insn.is_rip_relative() {
            true => Ok(()),
            false => self.entered(number(insn.displacement()), Entry::Address),
        }
    }

    fn entered(&mut self, address: u64, by: Entry) -> Result<(), Reason> {
        match self.body.contains(address) {
            true => (self.visit)(Found::Entered(address, by)),
            false => Ok(()),
        }
    }

    /// Searches the entries of a jump table. An entry that leads neither into the body, nor to its
    /// end or that of a cold part, nor to code without a start of its own, belongs to the next
    /// table.
    fn table(&mut self, table: Table) -> Result<(), Reason> {
        let surroundings = self.code.surroundings;
        let mut count = 0u32;
        for entry in table.entries(surroundings) {
            if self.body.ends_at(entry) {
                continue;
            }
            self.entered(entry, Entry::Table)?;
            if !self.body.contains(entry) {
                match surroundings.piece(entry) {
                    Some(piece) if !surroundings.is_compiled(piece.start) => self.outside(entry)?,
                    Some(piece) if piece.start == entry && self.is_part(entry.wrapping_sub(1)) => {
                        continue
                    }
                    _ => break,
                }
            }
            count = count.saturating_add(1);
        }
        match count {
            0 => Err(Reason::IndirectJump),
            _ => Ok(()),
        }
    }

    /// Searches a jump target outside of the body: the cold part of a function jumps back.
    fn outside(&mut self, target: u64) -> Result<(), Reason> {
        if self.body.contains(target) {
            return Ok(());
        }
        let Some(piece) = self.code.surroundings.piece(target) else {
            return Ok(());
        };
        let is_call = target == piece.start && self.code.surroundings.is_compiled(target);
        if is_call || self.seen.contains(&Some(piece)) {
            return Ok(());
        }
        if !self.remember(piece) {
            return self.look(piece);
        }
        while let Some(piece) = self.seen.get(self.looked).copied().flatten() {
            self.looked = self.looked.saturating_add(1);
            self.look(piece)?;
        }
        Ok(())
    }

    /// Remembers a piece for the search. Returns false if there is no room.
    fn remember(&mut self, piece: Piece) -> bool {
        let free = self.seen.iter_mut().find(|slot| slot.is_none());
        free.is_some_and(|free| {
            *free = Some(piece);
            true
        })
    }

    /// Returns true if an address is in a part of a function that the compiler has placed
    /// elsewhere.
    fn is_part(&self, address: u64) -> bool {
        let surroundings = self.code.surroundings;
        let piece = surroundings.piece(address);
        piece.is_some_and(|piece| surroundings.is_part(piece.start))
    }

    /// Remembers a cold part to which another one jumps: a function may have several.
    fn further(&mut self, from: Piece, target: u64) -> Result<bool, Reason> {
        if from.contains(target) || self.body.contains(target) || !self.is_part(target) {
            return Ok(false);
        }
        if let Some(piece) = self.code.surroundings.piece(target) {
            if !self.seen.contains(&Some(piece)) && !self.remember(piece) {
                return Err(Reason::TooLarge);
            }
        }
        Ok(true)
    }

    /// Searches a piece outside of the body.
    fn look(&mut self, piece: Piece) -> Result<(), Reason> {
        let (mut comes_back, mut is_unknown) = (false, false);
        self.code.sweep(piece, |at, insn| {
            self.operands(at, insn)?;
            if let Some(target) = jump_target(at, insn) {
                comes_back |= self.body.contains(target) && target != self.body.first;
                comes_back |= self.further(piece, target)?;
            }
            if !self.code.is_indirect_jump(at, insn) {
                return Ok(());
            }
            let Some(table) = Table::of(insn) else {
                is_unknown = true;
                return Ok(());
            };
            for entry in table.entries(self.code.surroundings) {
                let is_end = self.body.ends_at(entry) || entry == piece.end;
                if !self.body.contains(entry) && !piece.contains(entry) && !is_end {
                    break;
                }
                self.entered(entry, Entry::Table)?;
            }
            Ok(())
        })?;
        // A piece that jumps back belongs to the function.
        match comes_back && is_unknown {
            true => Err(Reason::IndirectJump),
            false => Ok(()),
        }
    }
}
