// SPDX-License-Identifier: GPL-2.0

//! Structures, classes and enumerations.

#![deny(unsafe_code)]

use gimli::AttributeValue;
use gimli::DebuggingInformationEntry as Entry;
use gimli::Operation;

use super::DwarfTypes;
use super::Id;
use super::Member;
use super::Reader;
use super::Result;
use super::Shape;
use super::Types;
use super::Unit;
use super::size_of;

impl DwarfTypes {
    /// Returns true if numbers of an enumeration may be negative.
    pub(super) fn is_signed_enumeration(
        &self,
        unit: &Unit,
        entry: &Entry<'_, '_, Reader>,
    ) -> Result<bool> {
        if let Some(underlying) = self.reference(unit, entry, gimli::DW_AT_type)? {
            return Ok(matches!(
                self.shape(underlying)?,
                Shape::Number { signed: true, .. }
            ));
        }
        // Without a type of its own only its numbers tell.
        let values = self.children(unit, entry, gimli::DW_TAG_enumerator, |entry| {
            let value = self.attribute(entry, gimli::DW_AT_const_value)?;
            Ok(matches!(value, Some(AttributeValue::Sdata(..0))))
        });
        Ok(values?.contains(&true))
    }

    /// Returns the first bit of a member in its structure.
    fn bit_offset(&self, unit: &Unit, entry: &Entry<'_, '_, Reader>) -> Result<u64> {
        if let Some(bit) = self.number(entry, gimli::DW_AT_data_bit_offset)? {
            return Ok(bit);
        }
        let failed = |error| self.bad(error);
        let bytes = match self.attribute(entry, gimli::DW_AT_data_member_location)? {
            // As DWARF 2 has it.
            Some(AttributeValue::Exprloc(expression)) => {
                let mut operations = expression.operations(unit.encoding());
                match operations.next().map_err(failed)? {
                    Some(Operation::PlusConstant { value }) => value,
                    _ => return Err(failed(gimli::Error::UnsupportedOffset)),
                }
            }
            value => value.and_then(|value| value.udata_value()).unwrap_or(0),
        };
        let first = bytes.saturating_mul(8);
        // Before DWARF 4 bits are counted from the upper end of a number.
        let above = self.number(entry, gimli::DW_AT_bit_offset)?;
        let width = self.number(entry, gimli::DW_AT_bit_size)?;
        let (Some(above), Some(width)) = (above, width) else {
            return Ok(first);
        };
        let size = match self.number(entry, gimli::DW_AT_byte_size)? {
            Some(size) => size,
            None => {
                let ty = self.reference(unit, entry, gimli::DW_AT_type)?;
                ty.map_or(Ok(0), |ty| size_of(self, ty))?
            }
        };
        let below = size
            .saturating_mul(8)
            .checked_sub(above.saturating_add(width));
        Ok(first.saturating_add(below.unwrap_or(0)))
    }

    /// Returns true if functions are given a pointer to a structure in its place: it has a copy
    /// constructor or a destructor of its own. Clang says so, GCC does not.
    pub(super) fn is_by_reference(&self, ty: Id, depth: usize) -> Result<bool> {
        let (Some(id), _) = self.plain(ty)? else {
            return Ok(false);
        };
        let (unit, entry) = self.entry(id)?;
        let is_structure = matches!(
            entry.tag(),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
        );
        let is_cpp = matches!(
            self.language(unit)?,
            Some(
                gimli::DW_LANG_C_plus_plus
                    | gimli::DW_LANG_C_plus_plus_03
                    | gimli::DW_LANG_C_plus_plus_11
                    | gimli::DW_LANG_C_plus_plus_14
                    | gimli::DW_LANG_C_plus_plus_17
                    | gimli::DW_LANG_C_plus_plus_20
            )
        );
        let Some(depth) = depth.checked_sub(1).filter(|_| is_structure && is_cpp) else {
            return Ok(false);
        };
        match self.attribute(&entry, gimli::DW_AT_calling_convention)? {
            Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_reference)) => {
                return Ok(true);
            }
            Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_value)) => {
                return Ok(false);
            }
            _ => (),
        }
        let name = self.name(unit, &entry)?.unwrap_or_default();
        let name = name.split('<').next().unwrap_or_default();
        let own = self.children(unit, &entry, gimli::DW_TAG_subprogram, |function| {
            let defaulted = self.attribute(function, gimli::DW_AT_defaulted)?;
            if defaulted.and_then(|value| value.udata_value()) == Some(1) {
                return Ok(false);
            }
            Ok(match self.name(unit, function)?.as_deref() {
                Some(known) if known.starts_with('~') => true,
                Some(known) if known == name => self.is_copying(unit, function, id)?,
                _ => false,
            })
        })?;
        if own.contains(&true) {
            return Ok(true);
        }
        for member in self.members_of(id)? {
            if member.name.starts_with("_vptr") || self.is_by_reference(member.ty, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a constructor takes another object of its class.
    fn is_copying(&self, unit: &Unit, function: &Entry<'_, '_, Reader>, class: Id) -> Result<bool> {
        let parameters =
            self.children(unit, function, gimli::DW_TAG_formal_parameter, |entry| {
                let Some(ty) = self.reference(unit, entry, gimli::DW_AT_type)? else {
                    return Ok(false);
                };
                let (unit, entry) = self.entry(ty)?;
                let is_reference = matches!(
                    entry.tag(),
                    gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type
                );
                let to = self.reference(unit, &entry, gimli::DW_AT_type)?;
                let to = to.filter(|_| is_reference).map(|to| self.plain(to));
                Ok(to.transpose()?.is_some_and(|(to, _)| to == Some(class)))
            })?;
        // The object itself comes first.
        Ok(parameters.get(1) == Some(&true))
    }

    /// Returns the members of a structure, those of what it is derived from first.
    pub(super) fn members_of(&self, ty: Id) -> Result<Vec<Member>> {
        let (Some(id), _) = self.plain(ty)? else {
            return Ok(Vec::new());
        };
        let (unit, entry) = self.entry(id)?;
        let member = |entry: &Entry<'_, '_, Reader>| {
            // A static member is elsewhere.
            let is_static = self.attribute(entry, gimli::DW_AT_external)?;
            if is_static == Some(AttributeValue::Flag(true)) {
                return Ok(None);
            }
            Ok(Some(Member {
                name: self.name(unit, entry)?.unwrap_or_default(),
                ty: self.reference(unit, entry, gimli::DW_AT_type)?.unwrap_or(0),
                bit_offset: self.bit_offset(unit, entry)?,
                bits: self.number(entry, gimli::DW_AT_bit_size)?,
            }))
        };
        let bases = self.children(unit, &entry, gimli::DW_TAG_inheritance, |entry| {
            let virtually = self.number(entry, gimli::DW_AT_virtuality)?;
            // Where a virtual one is, only the object itself knows.
            Ok(match virtually.unwrap_or(0) {
                0 => member(entry)?,
                _ => None,
            })
        })?;
        let own = self.children(unit, &entry, gimli::DW_TAG_member, member)?;
        Ok(bases.into_iter().chain(own).flatten().collect())
    }
}
