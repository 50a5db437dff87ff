// SPDX-License-Identifier: GPL-2.0

//! Executables, libraries, kernels and modules: symbols, and where in the file things are.

#![deny(unsafe_code)]

use std::io;
use std::path::Path;
use std::path::PathBuf;

use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use object::Object;
use object::ObjectKind;
use object::ObjectSection;
use object::ObjectSegment;
use object::ObjectSymbol;
use object::SectionIndex;
use object::SectionKind;
use object::SegmentFlags;
use object::SymbolKind;
use object::elf::PF_X;
use object::elf::STT_GNU_IFUNC;
use thiserror::Error;

use crate::file::read_regular;

/// The most bytes of a file: kernels and browsers with debugging information have one or two gigabytes.
const FILE_MAX: u64 = 4 << 30;

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

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Symbol {
    name: String,
    address: u64,
    size: u64,
    section: Option<SectionIndex>,
    is_resolver: bool,
}

/// A part of the file that is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    address: u64,
    size: u64,
    offset: u64,
    section: Option<SectionIndex>,
    is_code: bool,
    /// Whether it is only there while a module begins.
    is_init: bool,
}

/// Whether a part of the file can be executed.
fn is_executable(flags: SegmentFlags) -> bool {
    matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X))
}

/// An ELF file.
#[derive(Clone, Debug)]
pub struct Elf {
    bytes: Vec<u8>,
    symbols: Vec<Symbol>,
    parts: Vec<Part>,
    fixed: bool,
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
    /// Whether it is only there while a module begins.
    pub is_init: bool,
}

/// Why there is no symbol for a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSymbol {
    /// The file is shorter.
    Outside,
    /// It is in nothing that is loaded as code.
    NoCode,
    /// No symbol before it in its section has a name of its own.
    NoName,
}

/// Where a function returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Bytes from its start, of each return.
    pub offsets: Vec<u64>,
    /// Jumps to other functions, which return for it.
    pub leaves: usize,
}

/// What a symbol of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its address in the file's own numbers.
    pub address: u64,
    /// Whether it chooses the function, when the program starts, rather than being it (`STT_GNU_IFUNC`).
    pub is_resolver: bool,
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
        let all = file.symbols().chain(file.dynamic_symbols());
        let symbols = all.filter_map(|symbol| {
            let is_resolver = matches!(
                symbol.flags(),
                object::SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC
            );
            let named = matches!(
                symbol.kind(),
                SymbolKind::Text | SymbolKind::Data | SymbolKind::Unknown | SymbolKind::Label
            );
            let is_here = symbol.is_definition() || is_resolver && !symbol.is_undefined();
            if !is_here || !(named || is_resolver) {
                return None;
            }
            Some(Symbol {
                name: symbol
                    .name()
                    .ok()
                    .filter(|name| !name.is_empty())?
                    .to_owned(),
                address: symbol.address(),
                size: symbol.size(),
                section: symbol.section_index(),
                is_resolver,
            })
        });
        // Each symbol of a damaged file may have all of the file for its name.
        let mut room = bytes.len().saturating_mul(NAMES);
        let symbols = symbols.take_while(|symbol| {
            let left = room.checked_sub(symbol.name.len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let mut symbols: Vec<_> = symbols.collect();
        symbols.sort_by(|a, b| {
            (a.section.map(|one| one.0), a.address, &a.name).cmp(&(
                b.section.map(|one| one.0),
                b.address,
                &b.name,
            ))
        });
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
        let fixed = file.kind() == ObjectKind::Executable;
        let stripped = file.symbols().next().is_none();
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Ok(Self {
            bytes,
            symbols,
            parts,
            fixed,
            build_id,
            stripped,
        })
    }

    /// The symbol of a name. Versions (`malloc@@GLIBC_2.2.5`) need not be given.
    pub fn symbol(&self, name: &str) -> Option<Found> {
        let plain = |known: &str| known.split('@').next().unwrap_or_default() == name;
        let exact = self.symbols.iter().find(|symbol| symbol.name == name);
        let found = exact.or_else(|| self.symbols.iter().find(|symbol| plain(&symbol.name)))?;
        Some(Found {
            address: found.address,
            is_resolver: found.is_resolver,
        })
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().map(|symbol| symbol.name.as_str())
    }

    /// Whether its addresses are those in memory.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// The returns of a function, if its code is known.
    pub fn returns(&self, name: &str) -> Option<Returns> {
        let mut all = self.symbols.iter();
        let function = all.find(|symbol| symbol.name == name && symbol.size != 0)?;
        let part = self.parts.iter().find(|part| {
            let inside = function.address.checked_sub(part.address);
            let is_same = part.section.is_none() || part.section == function.section;
            is_same && inside.is_some_and(|inside| inside < part.size)
        })?;
        let start = part.offset.checked_add(function.address - part.address)?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(function.size).ok()?)?;
        let mut code = self.bytes.get(start..end)?;
        // Kernels with mitigations return by a jump.
        let thunk = self.symbol("__x86_return_thunk").map(|found| found.address);
        let mut returns = Returns::default();
        let mut offset = 0;
        while !code.is_empty() {
            let insn = Insn::decode(code).ok()?;
            let target = insn.branch_target(function.address.wrapping_add(offset));
            let is_outside = |target: u64| target.wrapping_sub(function.address) >= function.size;
            match insn.flow() {
                Flow::Return(_) => returns.offsets.push(offset),
                Flow::Jump(_) if target.is_some() && target == thunk => {
                    returns.offsets.push(offset)
                }
                Flow::Jump(Target::Relative(_)) | Flow::JumpIf(..)
                    if target.is_some_and(is_outside) =>
                {
                    returns.leaves += 1;
                }
                _ => (),
            }
            offset = offset.checked_add(u64::try_from(insn.len()).ok()?)?;
            code = code.get(insn.len()..)?;
        }
        Some(returns)
    }

    /// Where in the file an address is.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let parts = self.parts.iter().filter(|part| part.section.is_none());
        parts.into_iter().find_map(|part| {
            let inside = address.checked_sub(part.address)?;
            (inside < part.size).then(|| part.offset.checked_add(inside))?
        })
    }

    /// Whether it has only the names that other files need.
    pub fn is_stripped(&self) -> bool {
        self.stripped
    }

    /// Whether code is at a place in the file.
    pub fn is_code(&self, offset: u64) -> bool {
        let mut code = self.parts.iter().filter(|part| part.is_code);
        code.any(|part| {
            offset
                .checked_sub(part.offset)
                .is_some_and(|inside| inside < part.size)
        })
    }

    /// The bytes of a function, if they are known.
    pub fn size_of(&self, name: &str) -> Option<u64> {
        let found = self.symbols.iter().find(|symbol| symbol.name == name);
        found.map(|symbol| symbol.size)
    }

    /// Whether an instruction of the function of so many bytes at `start` in the file begins so many bytes behind that.
    pub fn is_instruction(&self, start: u64, size: u64, behind: u64) -> bool {
        let code = || {
            let from = usize::try_from(start).ok()?;
            let to = from.checked_add(usize::try_from(size).ok()?)?;
            self.bytes.get(from..to)
        };
        let mut code = code().unwrap_or_default();
        let mut at = 0;
        while at < behind {
            let Ok(insn) = Insn::decode(code) else {
                return false;
            };
            at += u64::try_from(insn.len()).unwrap_or(u64::MAX);
            code = code.get(insn.len()..).unwrap_or_default();
        }
        at == behind && !code.is_empty()
    }

    /// The build ID, if it has one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The nearest symbol before code at a place in the file that has a name of its own in the file, and of which `is_good` says so.
    pub fn symbol_at(
        &self,
        offset: u64,
        is_good: impl Fn(&str) -> bool,
    ) -> Result<At<'_>, NoSymbol> {
        if usize::try_from(offset).is_ok_and(|offset| offset >= self.bytes.len()) {
            return Err(NoSymbol::Outside);
        }
        let mut parts = self.parts.iter().filter(|part| part.is_code);
        let part = parts.find(|part| {
            let inside = offset.checked_sub(part.offset);
            inside.is_some_and(|inside| inside < part.size)
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// This program: position independent, with symbols.
    fn own() -> (Elf, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        (Elf::read(&path).unwrap(), std::fs::read(path).unwrap())
    }

    #[test]
    fn symbols_and_places_in_the_file() {
        let (elf, bytes) = own();
        let found = elf.symbol("main").unwrap();
        let offset = elf.offset_of(found.address).unwrap();
        assert!(usize::try_from(offset).unwrap() < bytes.len());
        let at = elf.symbol_at(offset + 1, |_| true).unwrap();
        assert_eq!((at.symbol, at.distance, at.is_init), ("main", 1, false));
        // The one before it is farther away.
        let other = elf.symbol_at(offset + 1, |name| name != "main").unwrap();
        assert!(other.symbol != "main" && other.distance > 1, "{other:?}");
        assert_eq!(elf.symbol_at(offset, |_| false), Err(NoSymbol::NoName));
        assert_eq!(elf.symbol_at(0, |_| true), Err(NoSymbol::NoCode));
        let end = u64::try_from(bytes.len()).unwrap();
        assert_eq!(elf.symbol_at(end, |_| true), Err(NoSymbol::Outside));
        assert_eq!(elf.symbol("no such symbol"), None);
        assert_eq!(elf.offset_of(u64::MAX), None);
        assert!(!elf.is_fixed());
        assert!(elf.names().any(|name| name == "main"));
    }

    /// Symbols of one long name, whose copies would take gigabytes.
    #[test]
    fn names_are_no_longer_than_the_file() {
        const NAME: u64 = 1 << 20;
        const SYMBOLS: u64 = 10_000;
        let mut strings = vec![b'x'; usize::try_from(NAME).unwrap()];
        (strings[0], *strings.last_mut().unwrap()) = (0, 0);
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        // Type, machine and version; entry, and where segments and sections are; flags; sizes and numbers.
        let sections = 64 + NAME + SYMBOLS * 24;
        bytes.extend([3_u16, 62, 1, 0].map(u16::to_le_bytes).concat());
        bytes.extend([0, 0, sections].map(u64::to_le_bytes).concat());
        let sizes = [0, 0, 64, 0, 0, 64, 3, 1];
        bytes.extend(sizes.map(u16::to_le_bytes).concat());
        assert_eq!(bytes.len(), 64);
        bytes.extend(strings);
        for _ in 0..SYMBOLS {
            // Its name, that it is a global function in section 1, where it is, and its size.
            bytes.extend([1, 0x0001_0012].map(u32::to_le_bytes).concat());
            bytes.extend([0x1000_u64, 1].map(u64::to_le_bytes).concat());
        }
        let section = |ty: u32, at: u64, size: u64, link: u32, entry: u64| {
            let mut section = [0, ty].map(u32::to_le_bytes).concat();
            section.extend([0, 0, at, size].map(u64::to_le_bytes).concat());
            section.extend([link, 0].map(u32::to_le_bytes).concat());
            section.extend([1, entry].map(u64::to_le_bytes).concat());
            section
        };
        bytes.extend(section(0, 0, 0, 0, 0));
        bytes.extend(section(3, 64, NAME, 0, 0));
        bytes.extend(section(2, 64 + NAME, SYMBOLS * 24, 1, 24));
        let len = bytes.len();
        let elf = Elf::parse(bytes).unwrap();
        let names: usize = elf.names().map(str::len).sum();
        assert!(names > 0 && names <= len * NAMES, "{names} of {len}");
    }

    #[test]
    fn what_is_no_file() {
        for path in ["/dev/zero", "/proc"] {
            let error = Elf::read(Path::new(path)).unwrap_err();
            assert!(matches!(error, ElfError::Io { .. }), "{error:?}");
        }
    }

    #[test]
    fn returns_of_functions() {
        let (elf, _) = own();
        let returns = elf.returns("main").unwrap();
        assert!(
            !returns.offsets.is_empty() || returns.leaves != 0,
            "{returns:?}"
        );
        let found = elf.symbol("main").unwrap();
        let start = elf.offset_of(found.address).unwrap();
        for offset in returns.offsets {
            let at = usize::try_from(start + offset).unwrap();
            assert!(matches!(elf.bytes[at], 0xc3 | 0xf2 | 0xf3), "{offset:#x}");
        }
        assert_eq!(elf.returns("no such symbol"), None);
    }

    #[test]
    fn no_program() {
        assert!(Elf::parse(b"text".to_vec()).is_err());
        assert!(matches!(
            Elf::read(Path::new("/nonexistent")),
            Err(ElfError::Io { .. })
        ));
    }
}
