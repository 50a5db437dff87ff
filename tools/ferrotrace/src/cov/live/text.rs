// SPDX-License-Identifier: GPL-2.0

//! Code of the running kernel: from `/proc/kcore`, or from the image that it was booted from.

#![deny(unsafe_code)]

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::Endianness;
use object::Object;
use object::ObjectSection;
use object::ObjectSymbol;
use object::SectionKind;
use object::elf::FileHeader64;
use object::elf::PT_LOAD;
use object::read::elf::FileHeader;
use object::read::elf::ProgramHeader;

use super::super::error::Error;
use super::super::error::Result;
use crate::dprobes::module_file::running_build_id;
use crate::elf::FILE_MAX;
use crate::file::IoError;
use crate::file::read_regular;
use crate::kallsyms::Kallsyms;

/// The kernel's memory as a core file.
const KCORE: &str = "/proc/kcore";

/// Bytes for the headers of a core file.
const HEADERS: usize = 64 << 10;

/// Symbol where the code begins.
const START: &str = "_text";

/// A part of the kernel's memory.
struct Part {
    addresses: Range<u64>,
    offset: u64,
}

enum Source {
    Core(File),
    Image(Vec<u8>),
}

/// Image that the running kernel was booted from.
pub struct Image {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    shift: u64,
}

/// Code of the running kernel.
pub struct Text {
    source: Source,
    parts: Vec<Part>,
}

fn parts_of_core(headers: &[u8]) -> object::Result<Vec<Part>> {
    let header = FileHeader64::<Endianness>::parse(headers)?;
    let endian = header.endian()?;
    let parts = header.program_headers(endian, headers)?.iter();
    let parts = parts.filter(|part| part.p_type(endian) == PT_LOAD);
    let parts = parts.map(|part| {
        let start = part.p_vaddr(endian);
        Part {
            addresses: start..start.saturating_add(part.p_memsz(endian)),
            offset: part.p_offset(endian),
        }
    });
    Ok(parts.collect())
}

impl Image {
    /// Reads an image that the running kernel, with these symbols, was booted from.
    pub fn open(path: &Path, kallsyms: &Kallsyms) -> Result<Self> {
        Self::of_build(path, running_build_id(Path::new("/"), None), kallsyms)
    }

    /// Reads an image with this build ID, if it is known.
    pub(super) fn of_build(
        path: &Path,
        build: Option<Vec<u8>>,
        kallsyms: &Kallsyms,
    ) -> Result<Self> {
        let unfit = |source| Error::Image {
            path: path.into(),
            source,
        };
        let bytes = read_regular(path, FILE_MAX).map_err(unfit)?;
        let file = object::File::parse(&*bytes);
        let file = file.map_err(|error| unfit(io::Error::other(error)))?;
        let own = file.build_id().ok().flatten();
        if build.is_some() && build.as_deref() != own {
            return Err(unfit(io::Error::other("it is of another build")));
        }
        let start = file.symbol_by_name_bytes(START.as_bytes());
        let start = start.ok_or_else(|| unfit(io::Error::other("it has no symbol _text")))?;
        let running = kallsyms.get(START).first().map(|symbol| symbol.address);
        // The kernel may have been moved.
        let shift = running.map_or(0, |running| running.wrapping_sub(start.address()));
        let sections = file.sections();
        let sections = sections.filter(|section| section.kind() == SectionKind::Text);
        let parts = sections.filter_map(|section| {
            let (offset, size) = section.file_range()?;
            let address = section.address().wrapping_add(shift);
            Some(Part {
                addresses: address..address.saturating_add(size),
                offset,
            })
        });
        Ok(Self {
            parts: parts.collect(),
            bytes,
            shift,
        })
    }

    /// Reads an image of any kernel, with its build ID and its own symbols in place of kallsyms.
    pub fn of_file(path: &Path) -> Result<(Self, Option<Vec<u8>>, Kallsyms)> {
        let image = Self::of_build(path, None, &Kallsyms::default())?;
        let unfit = |error| Error::Image {
            path: path.into(),
            source: io::Error::other(error),
        };
        let file = object::File::parse(&*image.bytes).map_err(unfit)?;
        let mut list = String::new();
        for symbol in file.symbols() {
            let section = symbol.section_index();
            let section = section.and_then(|index| file.section_by_index(index).ok());
            let (Some(section), Ok(name)) = (section, symbol.name()) else {
                continue;
            };
            if name.is_empty() || name.starts_with(['.', '$']) {
                continue;
            }
            let kind = match section.kind() {
                SectionKind::Text => 't',
                _ => 'd',
            };
            // Writing to a string does not fail.
            let _ = writeln!(list, "{:x} {kind} {name}", symbol.address());
        }
        let build = file.build_id().map_err(unfit)?.map(<[u8]>::to_vec);
        Ok((image, build, Kallsyms::parse(list)))
    }

    /// Makes an image of code at an address.
    #[cfg(test)]
    pub(super) fn of_code(address: u64, bytes: Vec<u8>) -> Self {
        let size = u64::try_from(bytes.len()).unwrap();
        let parts = vec![Part {
            addresses: address..address + size,
            offset: 0,
        }];
        Self {
            bytes,
            parts,
            shift: 0,
        }
    }

    /// Returns the distance by which the kernel was moved when it was booted.
    pub fn shift(&self) -> u64 {
        self.shift
    }
}

impl Text {
    /// Opens the memory of the running kernel.
    pub fn running() -> Result<Self> {
        let path = Path::new(KCORE);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoCode,
            _ => IoError::or_denied(Error::LiveDenied, "read", path, error),
        };
        let file = File::open(path).map_err(failed)?;
        let mut headers = vec![0; HEADERS];
        let count = file.read_at(&mut headers, 0).map_err(failed)?;
        headers.truncate(count);
        let parts = parts_of_core(&headers).map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self {
            source: Source::Core(file),
            parts,
        })
    }

    /// Takes the code of an image.
    pub fn image(image: Image) -> Self {
        Self {
            source: Source::Image(image.bytes),
            parts: image.parts,
        }
    }

    /// Reads the bytes at addresses. Returns `None` for addresses without code.
    pub fn read(&self, addresses: &Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let part = self.parts.iter().find(|part| {
            part.addresses.contains(&addresses.start) && addresses.end <= part.addresses.end
        });
        let Some(part) = part else {
            return Ok(None);
        };
        // That of a forged image may be too large.
        let offset = part
            .offset
            .checked_add(addresses.start - part.addresses.start);
        let Some(offset) = offset else {
            return Ok(None);
        };
        let len = usize::try_from(addresses.end - addresses.start).map_err(io::Error::other)?;
        match &self.source {
            Source::Core(file) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(Some(bytes))
            }
            Source::Image(bytes) => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let code = bytes.get(start..).and_then(|rest| rest.get(..len));
                Ok(code.map(<[u8]>::to_vec))
            }
        }
    }
}
