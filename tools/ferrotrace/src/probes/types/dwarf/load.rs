// SPDX-License-Identifier: GPL-2.0

//! The sections of a file that have DWARF. Those of a module of the kernel have not been linked: what refers to other sections is
//! filled in here.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gimli::BaseAddresses;
use gimli::DebugFrame;
use gimli::EhFrame;
use gimli::EndianArcSlice;
use gimli::RunTimeEndian;
use gimli::Section;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use object::Architecture;
use object::CompressionFormat;
use object::Object;
use object::ObjectKind;
use object::ObjectSection;
use object::ObjectSymbol;
use object::RelocationKind;
use object::RelocationTarget;
use object::SectionFlags;
use object::SectionIndex;
use object::SymbolKind;
use object::elf::SHF_EXECINSTR;

use super::Error;
use super::Reader;
use super::Result;
use crate::elf::FILE_MAX;
use crate::file::read_regular;

/// The section that says where frames are, if nothing else does.
const FRAMES: &str = ".eh_frame";

/// In a file that has not been linked: how far code of one section is from that of the next. No section has so much.
const APART: u64 = 1 << 32;

/// Contents of a file.
pub(super) struct Loaded {
    /// The debugging information.
    pub(super) dwarf: gimli::Dwarf<Reader>,
    /// Where frames are, for a debugger,
    pub(super) debug_frame: DebugFrame<Reader>,
    /// or for the program itself,
    pub(super) eh_frame: EhFrame<Reader>,
    /// whose addresses count from these.
    pub(super) bases: BaseAddresses,
    /// Where functions begin. There may be several of a name.
    pub(super) starts: BTreeMap<String, Vec<u64>>,
    /// Its build ID, if it has one.
    pub(super) build_id: Option<Vec<u8>>,
    /// True if the file is not linked.
    is_relocatable: bool,
    /// True if the code is for x86-64 with 64-bit addresses.
    pub(super) is_x86_64: bool,
}

/// Returns true if a section has code. A file of separate debugging information keeps such sections
/// without contents.
fn is_code(section: &object::Section<'_, '_>) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR))
}

/// Returns true if relocations to other sections are still to be applied.
fn is_relocated_later(file: &object::File<'_>) -> bool {
    let info = file.section_by_name(gimli::SectionId::DebugInfo.name());
    file.kind() == ObjectKind::Relocatable
        && info.is_some_and(|info| info.relocations().next().is_some())
}

/// Where a section of code is taken to be.
fn base(file: &object::File<'_>, section: SectionIndex) -> u64 {
    let is_code = file
        .section_by_index(section)
        .is_ok_and(|section| is_code(&section));
    match u64::try_from(section.0) {
        Ok(index) if is_code && is_relocated_later(file) => index.saturating_mul(APART),
        _ => 0,
    }
}

/// The bytes of a section as they were before they were compressed, or why they are not known.
fn plain(section: &object::Section<'_, '_>) -> std::result::Result<Vec<u8>, String> {
    let of_section = |what: &str| format!("{}: {what}", section.name().unwrap_or_default());
    let stored = section.compressed_data();
    let stored = stored.map_err(|error| of_section(&error.to_string()))?;
    let size = usize::try_from(stored.uncompressed_size).unwrap_or(usize::MAX);
    match stored.format {
        CompressionFormat::None => Ok(stored.data.to_vec()),
        CompressionFormat::Zlib => decompress_to_vec_zlib_with_limit(stored.data, size)
            .map_err(|error| of_section(&error.to_string())),
        _ => Err(of_section(
            "not compressed by zlib, objcopy --decompress-debug-sections makes a file that can be read",
        )),
    }
}

/// The bytes of a section, with what refers to other sections.
fn contents(file: &object::File<'_>, name: &str) -> std::result::Result<Vec<u8>, String> {
    let Some(section) = file.section_by_name(name) else {
        return Ok(Vec::new());
    };
    let mut data = plain(&section)?;
    if file.kind() != ObjectKind::Relocatable {
        return Ok(data);
    }
    for (at, relocation) in section.relocations() {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            continue;
        };
        let Ok(symbol) = file.symbol_by_index(index) else {
            continue;
        };
        let base = symbol
            .section_index()
            .map_or(0, |section| base(file, section));
        let value = base
            .wrapping_add(symbol.address())
            .wrapping_add_signed(relocation.addend());
        let value = match relocation.kind() {
            RelocationKind::Absolute => value,
            RelocationKind::Relative => value.wrapping_sub(at),
            _ => continue,
        };
        let len = usize::from(relocation.size() / 8);
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let room = at.checked_add(len).and_then(|end| data.get_mut(at..end));
        if let (Some(room), Some(value)) = (room, value.to_le_bytes().get(..len)) {
            room.copy_from_slice(value);
        }
    }
    Ok(data)
}

impl Loaded {
    /// The start of the function that has the lowest address in memory, which is the one that the kernel takes. Where sections come
    /// to be relative to each other is not known before a module is loaded.
    pub(super) fn lowest(&self, starts: &[u64]) -> Option<u64> {
        let lowest = starts.iter().min()?;
        let is_known = starts.iter().all(|start| start / APART == lowest / APART);
        (!self.is_relocatable || is_known).then_some(*lowest)
    }

    /// Reads the debugging information of `path`, and where frames are from there or from `code`.
    pub(super) fn read(path: &Path, code: Option<&Path>) -> Result<Self> {
        let bytes_of = |path: &Path| {
            read_regular(path, FILE_MAX).map_err(|source| Error::Io {
                path: path.into(),
                source,
            })
        };
        let bad = |what: String| Error::Bad {
            path: path.into(),
            what,
        };
        let bytes = bytes_of(path)?;
        let file = object::File::parse(&*bytes).map_err(|error| bad(error.to_string()))?;
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let code_sections = file.sections().filter(is_code).count();
        if file.kind() == ObjectKind::Relocatable && !is_relocated_later(&file) && code_sections > 1
        {
            let what = "its debugging information does not say in which sections functions are";
            return Err(match file.section_by_name(".debug_info") {
                Some(_) => bad(what.to_owned()),
                None => Error::NoDwarf(path.into()),
            });
        }
        let reader = |file: &object::File<'_>, name: &str| {
            let bytes = contents(file, name).map_err(bad)?;
            Ok::<_, Error>(EndianArcSlice::new(Arc::from(bytes), endian))
        };
        let dwarf = gimli::Dwarf::load(|id| reader(&file, id.name()))?;
        let frames_of = |file: &object::File<'_>| {
            let address = |name| Some(file.section_by_name(name)?.address());
            let bases = BaseAddresses::default()
                .set_eh_frame(address(FRAMES).unwrap_or(0))
                .set_text(address(".text").unwrap_or(0));
            Ok::<_, Error>((EhFrame::from(reader(file, FRAMES)?), bases))
        };
        let (mut eh_frame, mut bases) = frames_of(&file)?;
        if let Some(code) = code {
            let bytes = bytes_of(code)?;
            let file = object::File::parse(&*bytes).map_err(|error| bad(error.to_string()))?;
            (eh_frame, bases) = frames_of(&file)?;
        }
        let mut starts = BTreeMap::<String, Vec<u64>>::new();
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        for symbol in functions {
            if let (Ok(name), Some(section)) = (symbol.name(), symbol.section_index()) {
                let start = base(&file, section).wrapping_add(symbol.address());
                starts.entry(name.to_owned()).or_default().push(start);
            }
        }
        Ok(Self {
            dwarf,
            debug_frame: DebugFrame::from(reader(&file, DebugFrame::<Reader>::id().name())?),
            eh_frame,
            bases,
            starts,
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            is_relocatable: file.kind() == ObjectKind::Relocatable,
            is_x86_64: file.architecture() == Architecture::X86_64,
        })
    }
}
