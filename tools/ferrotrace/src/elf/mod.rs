// SPDX-License-Identifier: GPL-2.0

//! ELF files: executables, libraries, kernels, modules, and debug files that were split from them.
//!
//! [`symbols`] looks names up, [`code`] finds instructions, and [`Binary`] is a file that processes
//! run, with its debug file: the one look-up of all probes in user space.

#![deny(unsafe_code)]

pub mod binary;
mod code;
mod symbols;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::path::PathBuf;

use gimli::BaseAddresses;
use object::Architecture;
use object::Object;
use object::ObjectKind;
use object::ObjectSection;
use object::ObjectSegment;
use object::SectionFlags;
use object::SectionIndex;
use object::SectionKind;
use object::SegmentFlags;
use object::elf::PF_X;
use object::elf::SHF_EXECINSTR;
use thiserror::Error;

pub use binary::Binary;
pub use code::Returns;
pub use symbols::Found;
pub use symbols::LookupError;
use symbols::Symbol;

use crate::file::read_regular;

/// The most bytes of a file: kernels and browsers with debugging information have one or two
/// gigabytes.
pub(crate) const FILE_MAX: u64 = 4 << 30;

/// The names of a file's symbols, which may share bytes, have so many times its own size at most.
const NAMES: usize = 4;

/// Why a file is of no use.
#[derive(Debug, Error)]
pub enum ElfError {
    /// The system refuses.
    #[error("{}: cannot read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Not an ELF file.
    #[error("{}: not an executable, a library or an object file", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        source: object::Error,
    },
}

/// A part of the file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    address: u64,
    size: u64,
    offset: u64,
    section: Option<SectionIndex>,
    is_code: bool,
    /// True if it is only there while a module begins.
    is_init: bool,
}

impl Part {
    fn has(&self, address: u64) -> bool {
        let inside = address.checked_sub(self.address);
        inside.is_some_and(|inside| inside < self.size)
    }
}

/// Returns true if a part of the file can be executed.
fn is_executable(flags: SegmentFlags) -> bool {
    matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X))
}

/// Where the unwinding information of a file has its functions.
#[derive(Clone, Debug)]
struct Frames {
    /// The section in the file.
    bytes: Range<usize>,
    bases: BaseAddresses,
    address_size: u8,
}

/// An ELF file.
#[derive(Clone, Debug)]
pub struct Elf {
    bytes: Vec<u8>,
    symbols: Vec<Symbol>,
    /// Where functions begin, in order.
    starts: Vec<u64>,
    parts: Vec<Part>,
    /// Sections of code: address and size.
    text: Vec<(u64, u64)>,
    frames: Option<Frames>,
    kind: ObjectKind,
    /// True if its code is that of x86-64.
    is_x86_64: bool,
    is_kernel: bool,
    build_id: Option<Vec<u8>>,
    stripped: bool,
}

/// A place in a file, from a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At<'a> {
    /// The symbol.
    pub symbol: &'a str,
    /// Bytes from there.
    pub distance: u64,
    /// True if it is only there while a module begins.
    pub is_init: bool,
}

/// Why there is no symbol for a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSymbol {
    /// The file is shorter.
    Outside,
    /// No code is loaded there.
    NoCode,
    /// No symbol before it in its section has a name of its own.
    NoName,
}

impl Elf {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ElfError> {
        let bytes = read_regular(path, FILE_MAX).map_err(|source| ElfError::Io {
            path: path.into(),
            source,
        })?;
        Self::parse(bytes).map_err(|source| ElfError::Format {
            path: path.into(),
            source,
        })
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, object::Error> {
        let file = object::File::parse(&bytes[..])?;
        let symbols = symbols::read(&file, bytes.len().saturating_mul(NAMES));
        let functions = symbols.iter().filter(|symbol| symbol.is_function());
        let mut starts: Vec<_> = functions.map(|symbol| symbol.address).collect();
        starts.sort_unstable();
        let parts = match file.kind() {
            // Nothing has an address yet: what is from the start of a section.
            ObjectKind::Relocatable => file
                .sections()
                .filter_map(|section| {
                    let (offset, size) = section.file_range()?;
                    Some(Part {
                        address: section.address(),
                        size,
                        offset,
                        section: Some(section.index()),
                        is_code: section.kind() == SectionKind::Text,
                        is_init: section.name().is_ok_and(|name| name.starts_with(".init")),
                    })
                })
                .collect(),
            _ => file
                .segments()
                .map(|segment| {
                    let (offset, size) = segment.file_range();
                    Part {
                        address: segment.address(),
                        size,
                        offset,
                        section: None,
                        is_code: is_executable(segment.flags()),
                        is_init: false,
                    }
                })
                .collect(),
        };
        let text = file.sections();
        // Where the code was taken out, the section is still there, without contents.
        let text = text.filter(|section| {
            let flags = section.flags();
            matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR))
        });
        let text = text
            .map(|section| (section.address(), section.size()))
            .collect();
        let kind = file.kind();
        let has = |name| file.section_by_name(name).is_some();
        let is_kernel = kind == ObjectKind::Relocatable || has("__ksymtab") || has(".modinfo");
        let is_x86_64 = file.architecture() == Architecture::X86_64;
        let frames = frames(&file);
        let stripped = file.symbol_table().is_none();
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Ok(Self {
            bytes,
            symbols,
            starts,
            parts,
            text,
            frames,
            kind,
            is_x86_64,
            is_kernel,
            build_id,
            stripped,
        })
    }

    /// Returns true if its addresses are those in memory.
    pub fn is_fixed(&self) -> bool {
        self.kind == ObjectKind::Executable
    }

    /// Returns true if it is a kernel, or has not been linked, as a module of the kernel.
    pub fn is_kernel(&self) -> bool {
        self.is_kernel
    }

    /// Returns true if it has only the names that other files need.
    pub fn is_stripped(&self) -> bool {
        self.stripped
    }

    /// Returns the build ID, if it has one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Returns true unless the two files are surely of different builds: their build IDs differ,
    /// or, if one has none, their sections of code.
    pub fn is_of_build(&self, other: &Self) -> bool {
        match (&self.build_id, &other.build_id) {
            (Some(own), Some(other)) => own == other,
            _ => self.text == other.text,
        }
    }

    /// Returns the place in the file of an address.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let parts = self.parts.iter().filter(|part| part.section.is_none());
        let mut parts = parts.filter(|part| part.has(address));
        let part = parts.next()?;
        part.offset.checked_add(address - part.address)
    }

    /// Returns the address of a place in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let part = self.part_of(offset, |part| part.section.is_none())?;
        part.address.checked_add(offset - part.offset)
    }

    fn part_of(&self, offset: u64, is_good: impl Fn(&Part) -> bool) -> Option<&Part> {
        let mut parts = self.parts.iter().filter(|part| is_good(part));
        parts.find(|part| {
            let inside = offset.checked_sub(part.offset);
            inside.is_some_and(|inside| inside < part.size)
        })
    }

    /// Returns true if code is at a place in the file.
    pub fn is_code(&self, offset: u64) -> bool {
        self.part_of(offset, |part| part.is_code).is_some()
    }

    /// Returns at most `most` bytes of the file from a place on.
    pub fn bytes_at(&self, offset: u64, most: usize) -> &[u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        rest.get(..most).unwrap_or(rest)
    }

    /// Returns the nearest symbol before code at a place in the file that has a name of its own in
    /// the file, and that `is_good` accepts.
    pub fn symbol_at(
        &self,
        offset: u64,
        is_good: impl Fn(&str) -> bool,
    ) -> Result<At<'_>, NoSymbol> {
        if usize::try_from(offset).is_ok_and(|offset| offset >= self.bytes.len()) {
            return Err(NoSymbol::Outside);
        }
        let part = self.part_of(offset, |part| part.is_code);
        let part = part.ok_or(NoSymbol::NoCode)?;
        let inside = offset.checked_sub(part.offset);
        let address = inside.and_then(|inside| part.address.checked_add(inside));
        let address = address.ok_or(NoSymbol::NoCode)?;
        let mut before: Vec<&Symbol> = self
            .symbols
            .iter()
            .filter(|symbol| symbol.address <= address)
            .filter(|symbol| part.section.is_none() || symbol.section == part.section)
            .collect();
        // Those that have a size are functions rather than marks.
        before.sort_by_key(|symbol| (symbol.address, symbol.size != 0));
        let is_own = |symbol: &&&Symbol| {
            let same = self.symbols.iter().filter(|one| one.name == symbol.name);
            let at = |one: &Symbol| (one.section, one.address);
            same.into_iter().all(|one| at(one) == at(symbol)) && is_good(&symbol.name)
        };
        let found = before.iter().rev().find(is_own).ok_or(NoSymbol::NoName)?;
        Ok(At {
            symbol: &found.name,
            distance: address - found.address,
            is_init: part.is_init,
        })
    }
}

/// Returns what unwinding knows of functions, if the file has been linked.
fn frames(file: &object::File<'_>) -> Option<Frames> {
    let section = file.section_by_name(gimli::SectionId::EhFrame.name())?;
    let (start, size) = section.file_range()?;
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    let text = file.section_by_name(".text");
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(text.map_or(0, |text| text.address()));
    (file.kind() != ObjectKind::Relocatable).then_some(Frames {
        bytes: start..end,
        bases,
        address_size: if file.is_64() { 8 } else { 4 },
    })
}

#[cfg(test)]
mod tests;
