// SPDX-License-Identifier: GPL-2.0

//! Where the code of a function is, and where its parameters are while it runs.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use gimli::AttributeValue;
use gimli::BaseAddresses;
use gimli::CfaRule;
use gimli::DebuggingInformationEntry as Entry;
use gimli::Expression;
use gimli::Operation;
use gimli::UnwindContext;
use gimli::UnwindSection;
use gimli::X86_64;

use super::AtEntry;
use super::Convention;
use super::DwarfTypes;
use super::Located;
use super::Named;
use super::Reader;
use super::Result;
use super::Unit;

/// Returns a register's name in probes.
fn name_of(register: gimli::Register) -> Option<&'static str> {
    Some(match register {
        X86_64::RAX => "%ax",
        X86_64::RBX => "%bx",
        X86_64::RCX => "%cx",
        X86_64::RDX => "%dx",
        X86_64::RSI => "%si",
        X86_64::RDI => "%di",
        X86_64::RBP => "%bp",
        X86_64::RSP => "%sp",
        X86_64::R8 => "%r8",
        X86_64::R9 => "%r9",
        X86_64::R10 => "%r10",
        X86_64::R11 => "%r11",
        X86_64::R12 => "%r12",
        X86_64::R13 => "%r13",
        X86_64::R14 => "%r14",
        X86_64::R15 => "%r15",
        _ => return None,
    })
}

/// Returns a value that is in pieces.
fn pieces(operations: &[Operation<Reader>]) -> Option<Located> {
    let mut all = Vec::new();
    let mut register = None;
    for operation in operations {
        match operation {
            Operation::Register { register: number } => register = name_of(*number),
            Operation::Piece {
                size_in_bits,
                bit_offset: None | Some(0),
            } => all.push((*size_in_bits, register.take())),
            // Of anything else nothing is read.
            Operation::Piece { size_in_bits, .. } => {
                register = None;
                all.push((*size_in_bits, None));
            }
            _ => register = None,
        }
    }
    (!all.is_empty()).then_some(Located::Pieces(all))
}

impl DwarfTypes {
    /// Makes something of the function that a probe is put on, and of the addresses of its code that are in one piece with its start.
    /// `None` if that is not known.
    pub(super) fn coded<T>(
        &self,
        function: Named<'_>,
        mut to: impl FnMut(&Unit, &Entry<'_, '_, Reader>, (u64, u64)) -> Result<T>,
    ) -> Result<Option<T>> {
        let start = match (function.start, self.loaded.starts.get(function.name)) {
            (Some(start), _) => Some(start),
            (None, Some(starts)) => match self.loaded.lowest(starts) {
                Some(start) => Some(start),
                None => return Ok(None),
            },
            (None, None) => None,
        };
        let Some(start) = start else {
            // Without symbols the first range is taken: that is where a function begins.
            let mut all = BTreeSet::new();
            self.find(function.name, |unit, entry| {
                all.extend(self.range(unit, entry, None)?);
                Ok(None::<()>)
            })?;
            if all.len() > 1 {
                return Ok(None);
            }
            return self.find(function.name, |unit, entry| {
                let code = self.range(unit, entry, None)?;
                code.map(|code| to(unit, entry, code)).transpose()
            });
        };
        // Several functions can be at one address. The compiler gives a name what tells a copy from others: `f.isra.0`.
        let plain = function.name.split('.').next().unwrap_or_default();
        for is_named in [true, false] {
            for (_, unit) in &self.units {
                if !self.may_have(unit, start)? {
                    continue;
                }
                let found = self.find_in(unit, &mut |entry| {
                    let Some(code) = self.range(unit, entry, Some(start))? else {
                        return Ok(None);
                    };
                    match is_named && self.name(unit, entry)?.as_deref() != Some(plain) {
                        true => Ok(None),
                        false => to(unit, entry, code).map(Some),
                    }
                })?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Returns the range of a function's code that begins at `start`, or the first one.
    fn range(
        &self,
        unit: &Unit,
        entry: &Entry<'_, '_, Reader>,
        start: Option<u64>,
    ) -> Result<Option<(u64, u64)>> {
        let failed = |error| self.bad(error);
        let mut ranges = self.loaded.dwarf.die_ranges(unit, entry).map_err(failed)?;
        while let Some(range) = ranges.next().map_err(failed)? {
            if start.is_none_or(|start| start == range.begin) {
                return Ok(Some((range.begin, range.end)));
            }
        }
        Ok(None)
    }

    /// Returns false if a unit says that it has no code at an address.
    fn may_have(&self, unit: &Unit, address: u64) -> Result<bool> {
        let failed = |error| self.bad(error);
        let mut ranges = self.loaded.dwarf.unit_ranges(unit).map_err(failed)?;
        let mut is_told = false;
        while let Some(range) = ranges.next().map_err(failed)? {
            if (range.begin..range.end).contains(&address) {
                return Ok(true);
            }
            is_told = true;
        }
        Ok(!is_told)
    }

    /// Returns what is known of a parameter at the first instruction of a function.
    pub(super) fn parameter_entry(
        &self,
        unit: &Unit,
        function: &Entry<'_, '_, Reader>,
        low: u64,
        parameter: &str,
    ) -> Result<AtEntry> {
        let all = self.children(unit, function, gimli::DW_TAG_formal_parameter, |entry| {
            if self.name(unit, entry)?.as_deref() != Some(parameter) {
                return Ok(None);
            }
            let unknown = match self.is_changeable(unit, function)? {
                true => AtEntry::Removed,
                false => AtEntry::ByConvention,
            };
            let expression = match self.attribute(entry, gimli::DW_AT_location)? {
                None if self.attribute(entry, gimli::DW_AT_const_value)?.is_some() => {
                    return Ok(Some(AtEntry::Removed));
                }
                None => return Ok(Some(unknown)),
                Some(AttributeValue::Exprloc(expression)) => {
                    let is_passed = self.is_passed(unit, function, &expression)?;
                    let place = self.place(unit, function, expression, low)?;
                    let is_there = is_passed || matches!(place, Some(Located::Register(_)));
                    let place = place.filter(|_| is_there);
                    // Otherwise the function stores it where it is to be later.
                    return Ok(Some(place.map_or(AtEntry::ByConvention, AtEntry::Located)));
                }
                Some(value) => self.listed(unit, value, low)?,
            };
            let Some(expression) = expression else {
                return Ok(Some(unknown));
            };
            let place = self.place(unit, function, expression, low)?;
            Ok(Some(place.map_or(AtEntry::Removed, AtEntry::Located)))
        })?;
        let found = all.into_iter().flatten().next();
        // A copy of the function may have lost it.
        Ok(found.unwrap_or(AtEntry::Removed))
    }

    /// Returns true if a compiler may have called a function in its own way: nothing outside of the file knows it.
    fn is_changeable(&self, unit: &Unit, function: &Entry<'_, '_, Reader>) -> Result<bool> {
        let external = self.attribute(function, gimli::DW_AT_external)?;
        let (of, origin) = self.origin(unit, function)?;
        let specified = self.reference(of, &origin, gimli::DW_AT_specification)?;
        let specified = specified.map(|id| self.entry(id)).transpose()?;
        let mut is_external =
            external.is_some() || self.attribute(&origin, gimli::DW_AT_external)?.is_some();
        if let Some((_, entry)) = specified {
            is_external |= self.attribute(&entry, gimli::DW_AT_external)?.is_some();
        }
        Ok(!is_external || self.convention(unit, function)? == Convention::Changed)
    }

    /// The first instruction of each line of a function's code, in bytes from its start.
    pub(super) fn lines_of(
        &self,
        unit: &Unit,
        entry: &Entry<'_, '_, Reader>,
        (low, high): (u64, u64),
    ) -> Result<BTreeMap<u64, u32>> {
        let mut lines = BTreeMap::new();
        let failed = |error| self.bad(error);
        // The entry with the name has the line.
        let origin = self.reference(unit, entry, gimli::DW_AT_abstract_origin)?;
        let origin = origin.map(|origin| self.entry(origin)).transpose()?;
        // Files have other numbers in another unit.
        if origin
            .as_ref()
            .is_some_and(|(of, _)| of.header.offset() != unit.header.offset())
        {
            return Ok(lines);
        }
        let named = origin.as_ref().map_or(entry, |(_, entry)| entry);
        let file = named.attr_value(gimli::DW_AT_decl_file).map_err(failed)?;
        let file = match file {
            Some(AttributeValue::FileIndex(index)) => Some(index),
            other => other.and_then(|value| value.udata_value()),
        };
        let declared = self.number(named, gimli::DW_AT_decl_line)?;
        let (Some(declared), Some(program)) = (declared, unit.line_program.clone()) else {
            return Ok(lines);
        };
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row().map_err(failed)? {
            let is_it = Some(row.file_index()) == file
                && (low..high).contains(&row.address())
                && row.is_stmt()
                && !row.end_sequence();
            let line = row.line().and_then(|line| line.get().checked_sub(declared));
            let (Some(line), true) = (line, is_it) else {
                continue;
            };
            if let Ok(offset) = u32::try_from(row.address() - low) {
                let first = lines.entry(line).or_insert(offset);
                *first = offset.min(*first);
            }
        }
        Ok(lines)
    }

    /// Where a parameter is, so many bytes from the start of the function.
    pub(super) fn parameter_at(
        &self,
        unit: &Unit,
        entry: &Entry<'_, '_, Reader>,
        (low, high): (u64, u64),
        parameter: &str,
        offset: u32,
    ) -> Result<Option<Located>> {
        let failed = |error| self.bad(error);
        let pc = low.checked_add(u64::from(offset));
        let Some(pc) = pc.filter(|pc| *pc < high) else {
            return Ok(None);
        };
        let function = entry;
        let found = self.children(unit, entry, gimli::DW_TAG_formal_parameter, |entry| {
            if self.name(unit, entry)?.as_deref() != Some(parameter) {
                return Ok(None);
            }
            let value = entry.attr_value(gimli::DW_AT_location).map_err(failed)?;
            let value = match value {
                None => return Ok(None),
                // It is to hold everywhere, also where it has not been stored yet.
                Some(AttributeValue::Exprloc(expression)) => {
                    let is_passed = self.is_passed(unit, function, &expression)?;
                    let place = self.place(unit, function, expression, pc)?;
                    let is_there = is_passed
                        || matches!(place, Some(Located::Register(_)))
                        || self.prologue_end(unit, (low, high))? <= pc;
                    return Ok(place.filter(|_| is_there));
                }
                Some(value) => self.listed(unit, value, pc)?,
            };
            value.map_or(Ok(None), |value| self.place(unit, function, value, pc))
        })?;
        Ok(found.into_iter().flatten().next())
    }

    /// Returns true if the caller has stored the value at this place: on the stack, before the
    /// call.
    fn is_passed(
        &self,
        unit: &Unit,
        function: &Entry<'_, '_, Reader>,
        expression: &Expression<Reader>,
    ) -> Result<bool> {
        let failed = |error| self.bad(error);
        let first = |expression: &Expression<Reader>| {
            let mut operations = expression.clone().operations(unit.encoding());
            operations.next().map_err(failed)
        };
        let Some(Operation::FrameOffset { offset: 0.. }) = first(expression)? else {
            return Ok(false);
        };
        let base = function.attr_value(gimli::DW_AT_frame_base);
        Ok(match base.map_err(failed)? {
            Some(AttributeValue::Exprloc(base)) => first(&base)? == Some(Operation::CallFrameCFA),
            _ => false,
        })
    }

    /// Where the code begins that comes from what is in the function, behind what stores its parameters.
    fn prologue_end(&self, unit: &Unit, (low, high): (u64, u64)) -> Result<u64> {
        let failed = |error| self.bad(error);
        let Some(program) = unit.line_program.clone() else {
            return Ok(high);
        };
        let (mut marked, mut own) = (None, Vec::new());
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row().map_err(failed)? {
            if (low..high).contains(&row.address()) && !row.end_sequence() {
                own.push(row.address());
                if row.prologue_end() {
                    marked = marked.or(Some(row.address()));
                }
            }
        }
        // The first one is of the line with the name.
        Ok(marked.or(own.get(1).copied()).unwrap_or(high))
    }

    /// Returns the entry of a location list for an address.
    fn listed(
        &self,
        unit: &Unit,
        value: AttributeValue<Reader>,
        pc: u64,
    ) -> Result<Option<Expression<Reader>>> {
        let failed = |error| self.bad(error);
        let list = self.loaded.dwarf.attr_locations(unit, value);
        let Some(mut list) = list.map_err(failed)? else {
            return Ok(None);
        };
        while let Some(one) = list.next().map_err(failed)? {
            if (one.range.begin..one.range.end).contains(&pc) {
                return Ok(Some(one.data));
            }
        }
        Ok(None)
    }

    /// The place that an expression stands for, if it is a single one that a probe can read.
    fn place(
        &self,
        unit: &Unit,
        function: &Entry<'_, '_, Reader>,
        expression: Expression<Reader>,
        pc: u64,
    ) -> Result<Option<Located>> {
        let failed = |error| self.bad(error);
        let mut operations = Vec::new();
        let mut rest = expression.operations(unit.encoding());
        while let Some(operation) = rest.next().map_err(failed)? {
            operations.push(operation);
        }
        Ok(match &operations[..] {
            [Operation::Register { register }] => Some(match name_of(*register) {
                Some(name) => Located::Register(name),
                None => Located::Pieces(vec![(u64::MAX, None)]),
            }),
            [
                Operation::RegisterOffset {
                    register, offset, ..
                },
            ] => name_of(*register).map(|base| Located::Memory {
                base,
                offset: *offset,
            }),
            // The value of a register.
            [
                Operation::RegisterOffset {
                    register,
                    offset: 0,
                    ..
                },
                Operation::StackValue,
            ] => name_of(*register).map(Located::Register),
            [Operation::FrameOffset { offset }] => {
                self.frame(unit, function, pc)?
                    .and_then(|(base, distance)| {
                        let offset = distance.checked_add(*offset)?;
                        Some(Located::Memory { base, offset })
                    })
            }
            // A constant, or what a register had at the entry, or pieces.
            operations => pieces(operations),
        })
    }

    /// Where the frame of a function is: so many bytes behind where a register points.
    fn frame(
        &self,
        unit: &Unit,
        function: &Entry<'_, '_, Reader>,
        pc: u64,
    ) -> Result<Option<(&'static str, i64)>> {
        let failed = |error| self.bad(error);
        let value = function.attr_value(gimli::DW_AT_frame_base);
        let Some(AttributeValue::Exprloc(expression)) = value.map_err(failed)? else {
            return Ok(None);
        };
        let mut operations = expression.operations(unit.encoding());
        Ok(match operations.next().map_err(failed)? {
            Some(Operation::Register { register }) => name_of(register).map(|base| (base, 0)),
            Some(Operation::CallFrameCFA) => self.call_frame(pc),
            _ => None,
        })
    }

    /// The same of the frame that unwinding finds.
    fn call_frame(&self, pc: u64) -> Option<(&'static str, i64)> {
        fn rule<S: UnwindSection<Reader>>(
            section: &S,
            bases: &BaseAddresses,
            pc: u64,
        ) -> gimli::Result<CfaRule<usize>> {
            let mut context = UnwindContext::new();
            let row = section.unwind_info_for_address(bases, &mut context, pc, S::cie_from_offset);
            row.map(|row| row.cfa().clone())
        }
        let loaded = &self.loaded;
        let rule = rule(&loaded.debug_frame, &loaded.bases, pc)
            .or_else(|_| rule(&loaded.eh_frame, &loaded.bases, pc));
        match rule.ok()? {
            CfaRule::RegisterAndOffset { register, offset } => Some((name_of(register)?, offset)),
            CfaRule::Expression(_) => None,
        }
    }
}
