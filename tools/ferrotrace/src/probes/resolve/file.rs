// SPDX-License-Identifier: GPL-2.0

//! Functions of executables and libraries: where in the file they are, and what is known of their parameters.

#![deny(unsafe_code)]

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::elf::Binary;
use crate::elf::ElfError;
use crate::elf::Found;
use crate::elf::binary::PlaceError;
use crate::probes::error::or_these;
use crate::probes::model::number;
use crate::probes::types;
use crate::probes::types::DwarfTypes;

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
    /// No probe can be on the place.
    #[error("{path}: {why}{}", hint(why))]
    Place {
        /// The file.
        path: String,
        /// Why.
        why: PlaceError,
    },
}

fn hint(why: &PlaceError) -> String {
    match why {
        PlaceError::NoSymbol { near, .. } if !near.is_empty() => or_these(near),
        _ => String::new(),
    }
}

/// A place in the code of a file.
pub(super) struct At {
    /// Bytes from the start of the file.
    pub(super) offset: u64,
    /// The function that was named, or that begins there.
    pub(super) function: Option<Found>,
}

/// The code of a file.
pub(super) struct Code {
    path: String,
    binary: Binary,
}

impl Code {
    /// Reads it, and its debug file, if that is installed. Links are left to the kernel to follow: those in /proc of a process lead to
    /// what it has there, wherever that is.
    pub(super) fn open(path: &str) -> Result<Self, FileError> {
        let failed = |source| FileError::Path {
            path: path.to_owned(),
            source,
        };
        let whole = std::path::absolute(path).map_err(failed)?;
        let binary = Binary::open(&whole).map_err(|error| match error {
            ElfError::Io { source, .. } => failed(source),
            error => error.into(),
        })?;
        let path = whole.to_string_lossy().into_owned();
        // The kernel takes bytes for characters of Latin-1.
        let is_bad = |byte: u8| byte <= b' ' || [b':', b'#', 0xa0].contains(&byte);
        if whole.to_str().is_none() || path.bytes().any(is_bad) {
            return Err(FileError::Name(path));
        }
        Ok(Self { path, binary })
    }

    /// Its path, from / on.
    pub(super) fn path(&self) -> String {
        self.path.clone()
    }

    /// Names of functions that have code, and places of those that share a name.
    pub(super) fn matching(&self, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        self.binary.matching(is_it)
    }

    /// Finds the instruction so many bytes behind a function, or a place in the file that is named by its number.
    pub(super) fn place(&self, name: &str, behind: u32) -> Result<At, FileError> {
        let found = match number(name) {
            Some(at) => self.binary.place_at(u64::from(at) + u64::from(behind)),
            None => self.binary.place(name, behind.into()),
        };
        let found = found.map_err(|why| FileError::Place {
            path: self.path(),
            why,
        })?;
        Ok(At {
            offset: found.offset,
            function: found.symbol,
        })
    }
}

/// The types of a file, from its debugging information, wherever that is.
pub(super) fn types(path: &str) -> Result<DwarfTypes, types::Error> {
    let path = Path::new(path);
    let binary = Binary::open(path).ok();
    match binary.as_ref().and_then(Binary::debug_path) {
        Some(debug) => DwarfTypes::of_program(debug, Some(path)),
        None => DwarfTypes::of_program(path, None),
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
        let place = |name: &str, behind| code.place(name, behind).map(|at| at.offset);
        let start = place("main", 0).unwrap();
        // The same place by its number.
        assert_eq!(place(&format!("{start:#x}"), 0).unwrap(), start);
        assert!(
            code.matching(|name| name.starts_with("mai"))
                .contains(&"main".to_owned())
        );
        // One byte behind its start, or two, there is no instruction.
        let within = |at| {
            matches!(
                at,
                Err(FileError::Place {
                    why: PlaceError::Within(_),
                    ..
                })
            )
        };
        assert!((1..3).any(|behind| within(place("main", behind))));
        let good = (1..16).find_map(|behind| Some((behind, place("main", behind).ok()?)));
        let (behind, at) = good.unwrap();
        assert_eq!(at, start + u64::from(behind));
    }

    #[test]
    fn what_cannot_be_probed() {
        let text = |path: &str, name: &str| {
            let found = Code::open(path).and_then(|code| code.place(name, 0));
            found.err().unwrap().to_string()
        };
        assert!(text("/nonexistent/x", "f").starts_with("/nonexistent/x: No such file"));
        assert_eq!(
            text("/etc/passwd", "f"),
            "/etc/passwd: not an executable, a library or an object file"
        );
        assert!(
            text(&own(), "no_such_function_here").ends_with(": no symbol no_such_function_here")
        );
        assert!(text(&own(), "0x1").ends_with(": at 0x1 there is no code"));
    }

    /// A path in /proc is what a process has there, wherever that is.
    #[test]
    fn links_of_processes() {
        let pid = std::process::id();
        let path = format!("/proc/{pid}/exe");
        let code = Code::open(&path).unwrap();
        assert_eq!(code.path(), path);
        assert!(code.place("main", 0).is_ok());
    }
}
