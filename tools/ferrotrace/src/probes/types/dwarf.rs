// SPDX-License-Identifier: GPL-2.0

//! Types from DWARF, of a `vmlinux` that was built with debugging information.

#![deny(unsafe_code)]

mod code;
mod load;

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use gimli::AttributeValue;
use gimli::DebugInfoOffset;
use gimli::DebuggingInformationEntry as Entry;
use gimli::DwAt;
use gimli::EndianArcSlice;
use gimli::RunTimeEndian;
use gimli::UnitSectionOffset;

use super::Error;
use super::Function;
use super::Id;
use super::Located;
use super::Member;
use super::Parameter;
use super::Result;
use super::Shape;
use super::Types;
use crate::dprobes::elf::Elf;
use load::Loaded;

type Reader = EndianArcSlice<RunTimeEndian>;
type Unit = gimli::Unit<Reader>;

/// Names of names of types, of which there is an end.
const CHAIN_MAX: usize = 64;

/// The types of a file, and where its functions have their parameters.
pub struct DwarfTypes {
    loaded: Loaded,
    /// Where the units begin, in order.
    units: Vec<(usize, Unit)>,
    path: PathBuf,
    /// Of a program: what says where its functions are.
    symbols: Vec<Elf>,
    /// Of a kernel or a module: the build ID of what runs.
    running: Option<Vec<u8>>,
}

impl DwarfTypes {
    /// Reads a kernel or a module, of which what runs has this build ID, if that is known.
    pub fn open(path: &Path, running: Option<Vec<u8>>) -> Result<Self> {
        let types = Self::read(path, None, Vec::new())?;
        Ok(Self { running, ..types })
    }

    /// Reads the debugging information of a program. If this was taken out of it, `code` is the program. The first of `symbols` that
    /// has a function says which of several of that name is meant.
    pub fn of_program(path: &Path, code: Option<&Path>, symbols: Vec<Elf>) -> Result<Self> {
        Self::read(path, code, symbols)
    }

    fn read(path: &Path, code: Option<&Path>, symbols: Vec<Elf>) -> Result<Self> {
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
            symbols,
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
        match (&self.running, &self.loaded.build_id) {
            (Some(running), Some(own)) if running != own => Err(Error::Bad {
                path: self.path.clone(),
                what: "is not of what runs, their build IDs differ: places within functions are not known"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// What a function takes and returns.
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
        })
    }

    /// Looks for the function of this name that `to` makes something of.
    fn find<T>(
        &self,
        name: &str,
        mut to: impl FnMut(&Unit, &Entry<'_, '_, Reader>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let failed = |error| self.bad(error);
        for (_, unit) in &self.units {
            let mut entries = unit.entries();
            // The unit, then what is in it.
            let has_unit = entries.next_dfs().map_err(failed)?.is_some();
            if !has_unit || entries.next_dfs().map_err(failed)?.is_none() {
                continue;
            }
            loop {
                if let Some(entry) = entries.current() {
                    let is_function = entry.tag() == gimli::DW_TAG_subprogram;
                    if is_function && self.name(unit, entry)?.as_deref() == Some(name) {
                        if let Some(found) = to(unit, entry)? {
                            return Ok(Some(found));
                        }
                    }
                }
                if entries.next_sibling().map_err(failed)?.is_none() {
                    break;
                }
            }
        }
        Ok(None)
    }
}

impl Types for DwarfTypes {
    fn function(&self, name: &str) -> Result<Option<Function>> {
        self.check_machine()?;
        // What it is the code of has the types.
        let found = self.coded(name, |unit, entry, _| {
            match self.reference(unit, entry, gimli::DW_AT_abstract_origin)? {
                Some(origin) => {
                    let (unit, entry) = self.entry(origin)?;
                    self.signature(unit, &entry)
                }
                None => self.signature(unit, entry),
            }
        })?;
        if found.is_some() {
            return Ok(found);
        }
        // Code that is not known, or assembly: there may be a declaration.
        self.find(name, |unit, entry| {
            let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
            match origin.is_ok_and(|origin| origin.is_some()) {
                true => Ok(None),
                false => self.signature(unit, entry).map(Some),
            }
        })
    }

    fn lines(&self, function: &str) -> Result<BTreeMap<u64, u32>> {
        self.check_running()?;
        let found = self.coded(function, |unit, entry, code| {
            self.lines_of(unit, entry, code)
        })?;
        Ok(found.unwrap_or_default())
    }

    fn located(&self, function: &str, parameter: &str, offset: u32) -> Result<Option<Located>> {
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
                if is(&[gimli::DW_ATE_float, gimli::DW_ATE_complex_float]) {
                    return Ok(Shape::Other("float"));
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
                signed: false,
                is_char: false,
            },
            gimli::DW_TAG_pointer_type => match self.reference(unit, &entry, gimli::DW_AT_type)? {
                None => Shape::Pointer {
                    to: None,
                    is_const: false,
                },
                Some(to) => {
                    let (behind, is_const) = self.plain(to)?;
                    let to = behind.map(|_| to);
                    Shape::Pointer { to, is_const }
                }
            },
            gimli::DW_TAG_structure_type => Shape::Struct {
                name: name("struct")?,
                size,
            },
            gimli::DW_TAG_union_type => Shape::Struct {
                name: name("union")?,
                size,
            },
            gimli::DW_TAG_array_type => {
                let counts = self.children(unit, &entry, gimli::DW_TAG_subrange_type, |entry| {
                    let last = self.number(entry, gimli::DW_AT_upper_bound)?;
                    let count = self.number(entry, gimli::DW_AT_count)?;
                    Ok(count
                        .or(last.and_then(|last| last.checked_add(1)))
                        .unwrap_or(0))
                })?;
                // More than one dimension is seen as one.
                Shape::Array {
                    of: self
                        .reference(unit, &entry, gimli::DW_AT_type)?
                        .unwrap_or(0),
                    len: counts.into_iter().fold(1, u64::saturating_mul),
                }
            }
            gimli::DW_TAG_subroutine_type => Shape::Function,
            _ => Shape::Other("a type of another kind"),
        })
    }

    fn members(&self, ty: Id) -> Result<Vec<Member>> {
        let (Some(id), _) = self.plain(ty)? else {
            return Ok(Vec::new());
        };
        let (unit, entry) = self.entry(id)?;
        self.children(unit, &entry, gimli::DW_TAG_member, |entry| {
            let at = self.number(entry, gimli::DW_AT_data_member_location)?;
            let bytes = at.unwrap_or(0).saturating_mul(8);
            let bit = self.number(entry, gimli::DW_AT_data_bit_offset)?;
            Ok(Member {
                name: self.name(unit, entry)?.unwrap_or_default(),
                ty: self.reference(unit, entry, gimli::DW_AT_type)?.unwrap_or(0),
                bit_offset: bit.unwrap_or(bytes),
                bits: self.number(entry, gimli::DW_AT_bit_size)?,
            })
        })
    }
}
