// SPDX-License-Identifier: GPL-2.0

//! Functions of executables and libraries: where in the file they are, and what is known of their parameters.

#![deny(unsafe_code)]

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

use crate::dprobes::elf::Elf;
use crate::dprobes::elf::ElfError;
use crate::near::near;
use crate::probes::error::or_these;
use crate::probes::model::number;
use crate::probes::types;
use crate::probes::types::DwarfTypes;

/// Where distributions have what they take out of files.
const DEBUG_DIR: &str = "/usr/lib/debug/.build-id";

/// Why there can be no probe in a file.
#[derive(Debug, Error)]
pub enum FileError {
    /// It is not there.
    #[error("{path}: {source}")]
    Path {
        /// Its path, as the user has it.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The name has something that the kernel takes for something else.
    #[error(
        "{0}: the kernel takes no path with white space, a colon, a # or a byte 0xa0, which \u{e0} has, for example"
    )]
    Name(String),
    /// It is no program.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// It does not have the function.
    #[error("{path} has no function {name}{}", hint(*stripped, near))]
    NoSymbol {
        /// The file.
        path: String,
        /// The name.
        name: String,
        /// Whether it has only the names that other files need.
        stripped: bool,
        /// Names like this one.
        near: Vec<String>,
    },
    /// The program chooses the function when it starts.
    #[error(
        "{path}: {name} is no function itself, but chooses one when a program starts; name that one"
    )]
    Resolver {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// It is not executed.
    #[error("{path}: {place} is not in code")]
    NoCode {
        /// The file.
        path: String,
        /// What the user named.
        place: String,
    },
    /// There is an instruction around it.
    #[error("no probe at {path}:{place}: not the start of an instruction")]
    Within {
        /// The file.
        path: String,
        /// What the user named.
        place: String,
    },
}

fn hint(stripped: bool, near: &[String]) -> String {
    match (stripped, near) {
        (true, []) => "; it is stripped: only names that others use are known, PATH:0xOFFSET names any place in the file".to_owned(),
        (false, []) => String::new(),
        _ => or_these(near),
    }
}

/// The code of a file.
pub(super) struct Code {
    path: String,
    elf: Elf,
    /// What was taken out of it.
    apart: Option<Elf>,
}

impl Code {
    /// Reads it, and what was taken out of it, if that is installed.
    pub(super) fn open(path: &str) -> Result<Self, FileError> {
        let real = fs::canonicalize(path).map_err(|source| FileError::Path {
            path: path.to_owned(),
            source,
        })?;
        let elf = Elf::read(&real)?;
        let apart = debug_file(&elf).and_then(|path| Elf::read(&path).ok());
        let path = real.to_string_lossy().into_owned();
        // The kernel takes bytes for characters of Latin-1.
        let is_bad = |byte: u8| byte <= b' ' || [b':', b'#', 0xa0].contains(&byte);
        if real.to_str().is_none() || path.bytes().any(is_bad) {
            return Err(FileError::Name(path));
        }
        Ok(Self { path, elf, apart })
    }

    /// Its path, without links.
    pub(super) fn path(&self) -> String {
        self.path.clone()
    }

    fn files(&self) -> impl Iterator<Item = &Elf> {
        self.apart.iter().chain([&self.elf])
    }

    /// Names of functions that have code.
    pub(super) fn matching(&self, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.files().flat_map(Elf::names).filter(|name| is_it(name));
        let good = names.filter(|name| !name.contains('@') && self.offset(name, 0).is_ok());
        let mut names: Vec<_> = good.map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Where a function, or a place in the file that is named by its number, is in the file, and so many bytes behind.
    pub(super) fn offset(&self, name: &str, behind: u32) -> Result<u64, FileError> {
        let path = || self.path.clone();
        let place = || match behind {
            0 => name.to_owned(),
            _ => format!("{name}+{behind:#x}"),
        };
        let behind = u64::from(behind);
        if let Some(at) = number(name) {
            let at = u64::from(at) + behind;
            return match self.elf.is_code(at) {
                true => Ok(at),
                false => Err(FileError::NoCode {
                    path: path(),
                    place: place(),
                }),
            };
        }
        let found = self.files().find_map(|elf| Some((elf, elf.symbol(name)?)));
        let Some((of, found)) = found else {
            return Err(FileError::NoSymbol {
                path: path(),
                name: name.to_owned(),
                stripped: self.apart.is_none() && self.elf.is_stripped(),
                near: near(name, self.files().flat_map(Elf::names)),
            });
        };
        if found.is_resolver {
            return Err(FileError::Resolver {
                path: path(),
                name: name.to_owned(),
            });
        }
        let start = self.elf.offset_of(found.address);
        let at = start.and_then(|start| start.checked_add(behind));
        let at = at.filter(|at| self.elf.is_code(*at));
        let at = at.ok_or_else(|| FileError::NoCode {
            path: path(),
            place: place(),
        })?;
        // The sizes are where the symbols are, the code is in the file itself.
        let size = of.size_of(name).unwrap_or(0);
        match behind == 0 || self.elf.is_instruction(at - behind, size, behind) {
            true => Ok(at),
            false => Err(FileError::Within {
                path: path(),
                place: place(),
            }),
        }
    }
}

/// What was taken out of a file, if that is installed.
fn debug_file(elf: &Elf) -> Option<PathBuf> {
    let id: String = elf
        .build_id()?
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (dir, rest) = id.split_at_checked(2)?;
    let path = Path::new(DEBUG_DIR).join(dir).join(format!("{rest}.debug"));
    path.exists().then_some(path)
}

/// The types of a file, from its debugging information, wherever that is.
pub(super) fn types(path: &str) -> Result<DwarfTypes, types::Error> {
    let path = Path::new(path);
    let elf = Elf::read(path).ok();
    let apart = elf.as_ref().and_then(debug_file);
    // As `Code` has them: first those of what was taken out.
    let symbols = apart.as_ref().and_then(|apart| Elf::read(apart).ok());
    let symbols = symbols.into_iter().chain(elf).collect();
    match apart {
        Some(apart) => DwarfTypes::of_program(&apart, Some(path), symbols),
        None => DwarfTypes::of_program(path, None, symbols),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> String {
        std::env::current_exe()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn functions_of_this_program() {
        let code = Code::open(&own()).unwrap();
        let start = code.offset("main", 0).unwrap();
        // The same place by its number.
        assert_eq!(code.offset(&format!("{start:#x}"), 0).unwrap(), start);
        assert!(
            code.matching(|name| name.starts_with("mai"))
                .contains(&"main".to_owned())
        );
        // One byte behind its start, or two, there is no instruction.
        let inside: Vec<_> = (1..3).map(|behind| code.offset("main", behind)).collect();
        assert!(
            inside
                .iter()
                .any(|at| matches!(at, Err(FileError::Within { .. })))
        );
        let good = (1..16).find_map(|behind| Some((behind, code.offset("main", behind).ok()?)));
        let (behind, at) = good.unwrap();
        assert_eq!(at, start + u64::from(behind));
    }

    #[test]
    fn what_cannot_be_probed() {
        let text = |path: &str, name: &str| {
            let found = Code::open(path).and_then(|code| code.offset(name, 0));
            found.unwrap_err().to_string()
        };
        assert!(text("/nonexistent/x", "f").starts_with("/nonexistent/x: No such file"));
        assert_eq!(
            text("/etc/passwd", "f"),
            "/etc/passwd: not an executable, a library or an object file"
        );
        assert!(
            text(&own(), "no_such_function_here")
                .ends_with(" has no function no_such_function_here")
        );
        assert!(text(&own(), "0x1").ends_with(": 0x1 is not in code"));
        assert!(hint(true, &[]).contains("stripped"));
    }
}
