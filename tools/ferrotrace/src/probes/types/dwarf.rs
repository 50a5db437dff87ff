// SPDX-License-Identifier: GPL-2.0

//! Types from DWARF, of a `vmlinux` that was built with debugging information.

#![deny(unsafe_code)]

mod code;
mod load;
mod members;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use gimli::AttributeValue;
use gimli::DebugInfoOffset;
use gimli::DebuggingInformationEntry as Entry;
use gimli::DwAt;
use gimli::EndianArcSlice;
use gimli::EntriesTreeNode;
use gimli::RunTimeEndian;
use gimli::UnitSectionOffset;

use super::AtEntry;
use super::Convention;
use super::Error;
use super::Function;
use super::Id;
use super::Located;
use super::Member;
use super::Named;
use super::Parameter;
use super::Result;
use super::Shape;
use super::Types;
use super::size_of;
use load::Loaded;

type Reader = EndianArcSlice<RunTimeEndian>;
type Unit = gimli::Unit<Reader>;

/// Names of names of types, of which there is an end.
const CHAIN_MAX: usize = 64;

/// Where a type of an array has the number of its first dimension: an array of arrays is one entry.
const DIMENSION_BITS: u32 = 56;

/// Returns the dimension with which the array that a type is begins.
fn dimension_of(ty: Id) -> usize {
    usize::try_from(ty >> DIMENSION_BITS).unwrap_or(0)
}

/// Returns the type of the same array from a dimension on.
fn in_dimension(ty: Id, dimension: usize) -> Id {
    let dimension = Id::try_from(dimension).unwrap_or(0);
    ty & ((1 << DIMENSION_BITS) - 1) | dimension << DIMENSION_BITS
}

/// The types of a file, and where its functions have their parameters.
pub struct DwarfTypes {
    loaded: Loaded,
    /// Where the units begin, in order.
    units: Vec<(usize, Unit)>,
    path: PathBuf,
    /// Of a kernel or a module: the build ID of what runs.
    running: Option<Vec<u8>>,
}

impl DwarfTypes {
    /// Reads a kernel or a module, of which what runs has this build ID, if that is known.
    pub fn open(path: &Path, running: Option<Vec<u8>>) -> Result<Self> {
        let types = Self::read(path, None)?;
        Ok(Self { running, ..types })
    }

    /// Reads the debugging information of a program. If this was taken out of it, `code` is the program.
    pub fn of_program(path: &Path, code: Option<&Path>) -> Result<Self> {
        Self::read(path, code)
    }

    fn read(path: &Path, code: Option<&Path>) -> Result<Self> {
        let loaded = Loaded::read(path, code)?;
        let bad = |what: String| Error::Bad {
            path: path.into(),
            what,
        };
        let failed = |error: gimli::Error| bad(error.to_string());
        let mut units = Vec::new();
        let mut headers = loaded.dwarf.units();
        while let Some(header) = headers.next().map_err(failed)? {
            let Some(offset) = header.offset().as_debug_info_offset() else {
                continue;
            };
            units.push((offset.0, loaded.dwarf.unit(header).map_err(failed)?));
        }
        if units.is_empty() {
            return Err(Error::NoDwarf(path.into()));
        }
        let path = path.into();
        Ok(Self {
            loaded,
            units,
            path,
            running: None,
        })
    }

    fn bad(&self, error: gimli::Error) -> Error {
        Error::Bad {
            path: self.path.clone(),
            what: error.to_string(),
        }
    }

    /// The unit of a type, and its entry there.
    fn entry(&self, ty: Id) -> Result<(&Unit, Entry<'_, '_, Reader>)> {
        let ty = in_dimension(ty, 0);
        let at = usize::try_from(ty).unwrap_or(usize::MAX);
        let next = self.units.partition_point(|(begin, _)| *begin <= at);
        let found = next.checked_sub(1).and_then(|index| self.units.get(index));
        let unknown = || self.bad(gimli::Error::OffsetOutOfBounds);
        let (_, unit) = found.ok_or_else(unknown)?;
        let offset = UnitSectionOffset::DebugInfoOffset(DebugInfoOffset(at));
        let offset = offset.to_unit_offset(unit).ok_or_else(unknown)?;
        let entry = unit.entry(offset).map_err(|error| self.bad(error))?;
        Ok((unit, entry))
    }

    /// The name of an entry, or of the one that it is the code of.
    fn name(&self, unit: &Unit, entry: &Entry<'_, '_, Reader>) -> Result<Option<String>> {
        let value = entry.attr_value(gimli::DW_AT_name);
        let Some(value) = value.map_err(|error| self.bad(error))? else {
            let origin = self.reference(unit, entry, gimli::DW_AT_abstract_origin)?;
            return match origin.map(|origin| self.entry(origin)).transpose()? {
                // An origin has a name, or none at all.
                Some((unit, entry))
                    if entry
                        .attr_value(gimli::DW_AT_name)
                        .is_ok_and(|n| n.is_some()) =>
                {
                    self.name(unit, &entry)
                }
                _ => Ok(None),
            };
        };
        let text = self.loaded.dwarf.attr_string(unit, value);
        let text = text.map_err(|error| self.bad(error))?;
        let text = gimli::Reader::to_string_lossy(&text).map_err(|error| self.bad(error))?;
        Ok(Some(text.into_owned()))
    }

    /// The entry that an attribute refers to.
    fn reference(
        &self,
        unit: &Unit,
        entry: &Entry<'_, '_, Reader>,
        attribute: DwAt,
    ) -> Result<Option<Id>> {
        let value = entry.attr_value(attribute);
        let offset = match value.map_err(|error| self.bad(error))? {
            Some(AttributeValue::UnitRef(offset)) => offset.to_debug_info_offset(&unit.header),
            Some(AttributeValue::DebugInfoRef(offset)) => Some(offset),
            _ => None,
        };
        Ok(offset.and_then(|offset| Id::try_from(offset.0).ok()))
    }

    /// Returns the entry that a piece of code is of: the one with the types.
    fn origin<'a>(
        &'a self,
        unit: &'a Unit,
        entry: &Entry<'a, 'a, Reader>,
    ) -> Result<(&'a Unit, Entry<'a, 'a, Reader>)> {
        let origin = self.reference(unit, entry, gimli::DW_AT_abstract_origin)?;
        match origin {
            Some(origin) => self.entry(origin),
            None => Ok((unit, entry.clone())),
        }
    }

    fn number(&self, entry: &Entry<'_, '_, Reader>, attribute: DwAt) -> Result<Option<u64>> {
        let value = entry.attr_value(attribute);
        let value = value.map_err(|error| self.bad(error))?;
        Ok(value.and_then(|value| value.udata_value()))
    }

    /// The type behind other names for it, and whether one of them is `const`. `None` is `void`.
    fn plain(&self, ty: Id) -> Result<(Option<Id>, bool)> {
        let mut id = ty;
        let mut is_const = false;
        for _ in 0..CHAIN_MAX {
            let (unit, entry) = self.entry(id)?;
            match entry.tag() {
                gimli::DW_TAG_const_type => is_const = true,
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => (),
                _ => return Ok((Some(id), is_const)),
            }
            match self.reference(unit, &entry, gimli::DW_AT_type)? {
                Some(next) => id = next,
                None => return Ok((None, is_const)),
            }
        }
        Err(self.bad(gimli::Error::InvalidAddressRange))
    }

    /// The children of an entry that have this tag.
    fn children<T>(
        &self,
        unit: &Unit,
        entry: &Entry<'_, '_, Reader>,
        tag: gimli::DwTag,
        mut to: impl FnMut(&Entry<'_, '_, Reader>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let failed = |error| self.bad(error);
        let mut all = Vec::new();
        let mut tree = unit.entries_tree(Some(entry.offset())).map_err(failed)?;
        let root = tree.root().map_err(failed)?;
        let mut children = root.children();
        while let Some(child) = children.next().map_err(failed)? {
            if child.entry().tag() == tag {
                all.push(to(child.entry())?);
            }
        }
        Ok(all)
    }
}

impl DwarfTypes {
    /// Refuses programs whose registers have other numbers, and whose arguments are elsewhere.
    fn check_machine(&self) -> Result<()> {
        match self.loaded.is_x86_64 {
            true => Ok(()),
            false => Err(Error::Bad {
                path: self.path.clone(),
                what:
                    "not 64-bit code of x86: parameters have to be given by their registers (%di)"
                        .to_owned(),
            }),
        }
    }

    /// Refuses places in code of another kernel or module than runs.
    fn check_running(&self) -> Result<()> {
        match self.is_of_other_build() {
            true => Err(Error::Bad {
                path: self.path.clone(),
                what: "is not of what runs, their build IDs differ: places within functions are not known"
                    .to_owned(),
            }),
            false => Ok(()),
        }
    }

    fn is_of_other_build(&self) -> bool {
        let ids = self.running.as_ref().zip(self.loaded.build_id.as_ref());
        ids.is_some_and(|(running, own)| running != own)
    }

    /// Returns the parameters and the result of a function.
    fn signature(&self, unit: &Unit, entry: &Entry<'_, '_, Reader>) -> Result<Function> {
        let parameters = self.children(unit, entry, gimli::DW_TAG_formal_parameter, |entry| {
            Ok(Parameter {
                name: self.name(unit, entry)?.unwrap_or_default(),
                ty: self.reference(unit, entry, gimli::DW_AT_type)?.unwrap_or(0),
            })
        });
        Ok(Function {
            parameters: parameters?,
            returns: self.reference(unit, entry, gimli::DW_AT_type)?,
            convention: self.convention(unit, entry)?,
        })
    }

    /// Returns how a function is called.
    fn convention(&self, unit: &Unit, entry: &Entry<'_, '_, Reader>) -> Result<Convention> {
        let value = self.attribute(entry, gimli::DW_AT_calling_convention)?;
        if value == Some(AttributeValue::CallingConvention(gimli::DW_CC_nocall)) {
            return Ok(Convention::Changed);
        }
        Ok(match self.language(unit)? {
            Some(gimli::DW_LANG_Rust | gimli::DW_LANG_Go | gimli::DW_LANG_Swift)
            | Some(gimli::DW_LANG_Haskell | gimli::DW_LANG_OCaml | gimli::DW_LANG_Zig) => {
                Convention::Other
            }
            _ => Convention::SystemV,
        })
    }

    fn language(&self, unit: &Unit) -> Result<Option<gimli::DwLang>> {
        let mut entries = unit.entries();
        let first = entries.next_dfs().map_err(|error| self.bad(error))?;
        let value = match first {
            Some((_, entry)) => self.attribute(entry, gimli::DW_AT_language)?,
            None => None,
        };
        Ok(match value {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        })
    }

    fn attribute(
        &self,
        entry: &Entry<'_, '_, Reader>,
        attribute: DwAt,
    ) -> Result<Option<AttributeValue<Reader>>> {
        entry.attr_value(attribute).map_err(|error| self.bad(error))
    }

    /// Looks for the function of this name that `to` makes something of.
    fn find<T>(
        &self,
        name: &str,
        mut to: impl FnMut(&Unit, &Entry<'_, '_, Reader>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for (_, unit) in &self.units {
            let found =
                self.find_in(unit, &mut |entry| match self.name(unit, entry)?.as_deref()
                    == Some(name)
                {
                    true => to(unit, entry),
                    false => Ok(None),
                })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Looks for a function of a unit that `to` makes something of.
    fn find_in<T>(
        &self,
        unit: &Unit,
        to: &mut dyn FnMut(&Entry<'_, '_, Reader>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let failed = |error| self.bad(error);
        let mut tree = unit.entries_tree(None).map_err(failed)?;
        self.find_below(tree.root().map_err(failed)?, to)
    }

    fn find_below<T>(
        &self,
        node: EntriesTreeNode<'_, '_, '_, Reader>,
        to: &mut dyn FnMut(&Entry<'_, '_, Reader>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let failed = |error| self.bad(error);
        let mut children = node.children();
        while let Some(child) = children.next().map_err(failed)? {
            let found = match child.entry().tag() {
                gimli::DW_TAG_subprogram => to(child.entry())?,
                // Functions of C++ and Rust are in these.
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_module
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_enumeration_type => self.find_below(child, to)?,
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl Types for DwarfTypes {
    fn function(&self, function: Named<'_>) -> Result<Option<Function>> {
        self.check_machine()?;
        let found = self.coded(function, |unit, entry, _| {
            let convention = self.convention(unit, entry)?;
            // The entry that it is the code of has the types.
            let (unit, entry) = self.origin(unit, entry)?;
            let signature = self.signature(unit, &entry)?;
            Ok(match convention {
                Convention::Changed => Function {
                    convention,
                    ..signature
                },
                _ => signature,
            })
        })?;
        if found.is_some() {
            return Ok(found);
        }
        // Code that is not known, or assembly: there may be a declaration.
        self.find(function.name, |unit, entry| {
            let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
            match origin.is_ok_and(|origin| origin.is_some()) {
                true => Ok(None),
                false => self.signature(unit, entry).map(Some),
            }
        })
    }

    fn lines(&self, function: Named<'_>) -> Result<BTreeMap<u64, u32>> {
        self.check_running()?;
        let found = self.coded(function, |unit, entry, code| {
            self.lines_of(unit, entry, code)
        })?;
        Ok(found.unwrap_or_default())
    }

    fn at_entry(&self, function: Named<'_>, parameter: &str) -> Result<AtEntry> {
        self.check_machine()?;
        if self.is_of_other_build() {
            return Ok(AtEntry::ByConvention);
        }
        let found = self.coded(function, |unit, entry, (low, _)| {
            self.parameter_entry(unit, entry, low, parameter)
        })?;
        Ok(found.unwrap_or(AtEntry::ByConvention))
    }

    fn located(
        &self,
        function: Named<'_>,
        parameter: &str,
        offset: u32,
    ) -> Result<Option<Located>> {
        self.check_machine()?;
        self.check_running()?;
        let found = self.coded(function, |unit, entry, code| {
            self.parameter_at(unit, entry, code, parameter, offset)
        })?;
        Ok(found.flatten())
    }

    fn shape(&self, ty: Id) -> Result<Shape> {
        let (Some(id), _) = self.plain(ty)? else {
            return Ok(Shape::Other("void"));
        };
        let (unit, entry) = self.entry(id)?;
        let size = self.number(&entry, gimli::DW_AT_byte_size)?.unwrap_or(0);
        let name = |kind: &str| {
            let name = self.name(unit, &entry)?.unwrap_or_default();
            Ok::<_, Error>(format!("{kind} {name}"))
        };
        Ok(match entry.tag() {
            gimli::DW_TAG_base_type => {
                let encoding = entry.attr_value(gimli::DW_AT_encoding);
                let encoding = match encoding.map_err(|error| self.bad(error))? {
                    Some(AttributeValue::Encoding(encoding)) => encoding,
                    _ => gimli::DW_ATE_unsigned,
                };
                let is = |wanted: &[gimli::DwAte]| wanted.contains(&encoding);
                let is_complex = is(&[gimli::DW_ATE_complex_float]);
                if is_complex || is(&[gimli::DW_ATE_float, gimli::DW_ATE_decimal_float]) {
                    let name = self.name(unit, &entry)?.unwrap_or_default();
                    return Ok(Shape::float(&name, size, is_complex));
                }
                Shape::Number {
                    size,
                    signed: is(&[gimli::DW_ATE_signed, gimli::DW_ATE_signed_char]),
                    is_char: is(&[gimli::DW_ATE_signed_char])
                        || self.name(unit, &entry)?.as_deref() == Some("char"),
                }
            }
            gimli::DW_TAG_enumeration_type => Shape::Number {
                size,
                signed: self.is_signed_enumeration(unit, &entry)?,
                is_char: false,
            },
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                match self.reference(unit, &entry, gimli::DW_AT_type)? {
                    None => Shape::Pointer {
                        to: None,
                        is_const: false,
                    },
                    Some(to) => {
                        let (behind, is_const) = self.plain(to)?;
                        let to = behind.map(|_| to);
                        Shape::Pointer { to, is_const }
                    }
                }
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                Shape::Struct {
                    name: name(match entry.tag() {
                        gimli::DW_TAG_structure_type => "struct",
                        gimli::DW_TAG_class_type => "class",
                        _ => "union",
                    })?,
                    size,
                    align: self.number(&entry, gimli::DW_AT_alignment)?,
                    by_reference: self.is_by_reference(id, CHAIN_MAX)?,
                }
            }
            gimli::DW_TAG_array_type => {
                let counts = self.children(unit, &entry, gimli::DW_TAG_subrange_type, |entry| {
                    let last = self.number(entry, gimli::DW_AT_upper_bound)?;
                    let count = self.number(entry, gimli::DW_AT_count)?;
                    Ok(count
                        .or(last.and_then(|last| last.checked_add(1)))
                        .unwrap_or(0))
                })?;
                let of = self.reference(unit, &entry, gimli::DW_AT_type)?;
                let of = of.unwrap_or(0);
                let is_vector = self.attribute(&entry, gimli::DW_AT_GNU_vector)?;
                if is_vector == Some(AttributeValue::Flag(true)) {
                    let len = counts.into_iter().fold(1, u64::saturating_mul);
                    let size = size_of(self, of)?.saturating_mul(len);
                    return Ok(Shape::Vector { size });
                }
                // An element of the first dimension is an array of the others.
                let dimension = dimension_of(id);
                let rest = counts.get(dimension..).unwrap_or_default();
                let len = rest.first().copied().unwrap_or(0);
                match rest {
                    [_, _, ..] => Shape::Array {
                        of: in_dimension(id, dimension + 1),
                        len,
                    },
                    _ => Shape::Array { of, len },
                }
            }
            gimli::DW_TAG_subroutine_type => Shape::Function,
            _ => Shape::Other("a type of another kind"),
        })
    }

    fn members(&self, ty: Id) -> Result<Vec<Member>> {
        self.members_of(ty)
    }
}
