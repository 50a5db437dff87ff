// SPDX-License-Identifier: GPL-2.0

//! A file that processes run, with the debug file that was split from it: where its functions are.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

use super::Elf;
use super::ElfError;
use super::Found;
use super::LookupError;
use super::code::Returns;
use super::symbols::Symbol;
use super::symbols::lookup;
use super::symbols::select;
use crate::near::near;

/// Where distributions have debug files.
const DEBUG_DIR: &str = "/usr/lib/debug/.build-id";

/// An executable or a library.
#[derive(Clone, Debug)]
pub struct Binary {
    path: PathBuf,
    elf: Elf,
    /// Symbols that were split from it, or that the user names.
    debug: Option<(PathBuf, Elf)>,
    /// True if these are of the same build.
    is_same_build: bool,
}

/// A place in a file that a probe can be put on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// The address in the file's own numbers.
    pub address: u64,
    /// The symbol that was named, or the function that begins there.
    pub symbol: Option<Found>,
}

/// Why there is no such place.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlaceError {
    /// No symbol has the name.
    #[error("no symbol {name}{}", stripped_hint(*stripped))]
    NoSymbol {
        /// The name.
        name: String,
        /// True if the file has only the names that other files need.
        stripped: bool,
        /// Names like this one.
        near: Vec<String>,
    },
    /// No symbol of the name has the version.
    #[error("no version {wanted}: there are {versions}")]
    NoVersion {
        /// As the user has it.
        wanted: String,
        /// The versions.
        versions: String,
    },
    /// Several symbols have the name.
    #[error(
        "several symbols {name}, at {}: a place in the file names one of them",
        list(places)
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// Their places in the file, each with what tells it from the others.
        places: Vec<(u64, Option<String>)>,
    },
    /// The symbol only chooses a function.
    #[error(
        "{name} chooses one of several functions when a program starts (STT_GNU_IFUNC), and is none itself: {}",
        name_one(implementations)
    )]
    Resolver {
        /// The name.
        name: String,
        /// The functions.
        implementations: Vec<String>,
    },
    /// The place is not executed.
    #[error("at {0} there is no code")]
    NoCode(String),
    /// An instruction is around the place.
    #[error("{0} is not the start of an instruction")]
    Within(String),
}

/// Symbols of another build.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{} is not of the same build as {}: their build IDs or their code differ (--any-build takes it)",
    symbols.display(),
    path.display()
)]
pub struct OtherBuild {
    /// The file of symbols.
    pub symbols: PathBuf,
    /// The file that these symbols are not of.
    pub path: PathBuf,
}

fn stripped_hint(stripped: bool) -> &'static str {
    match stripped {
        true => {
            "; it is stripped: only names that others use are known, a number names any place in the file"
        }
        false => "",
    }
}

fn list(places: &[(u64, Option<String>)]) -> String {
    let places = places.iter().map(|(place, what)| match what {
        Some(what) => format!("{place:#x} ({what})"),
        None => format!("{place:#x}"),
    });
    places.collect::<Vec<_>>().join(", ")
}

fn name_one(implementations: &[String]) -> String {
    match implementations {
        [] => "name that function".to_owned(),
        all => format!("name one of {}", all.join(", ")),
    }
}

impl Binary {
    /// Reads a file, and its debug file, if that is installed.
    pub fn open(path: &Path) -> Result<Self, ElfError> {
        let elf = Elf::read(path)?;
        let debug = debug_file(&elf);
        let debug = debug.and_then(|path| Some((path.clone(), Elf::read(&path).ok()?)));
        Ok(Self {
            path: path.into(),
            elf,
            debug,
            is_same_build: true,
        })
    }

    /// Takes symbols from the file that the user names, which has to be of the same build, unless
    /// it may be `of_any_build`.
    pub fn with_symbols(
        self,
        path: &Path,
        symbols: &Elf,
        of_any_build: bool,
    ) -> Result<Self, OtherBuild> {
        let is_same_build = self.elf.is_of_build(symbols);
        match is_same_build || of_any_build {
            true => Ok(Self {
                debug: Some((path.into(), symbols.clone())),
                is_same_build,
                ..self
            }),
            false => Err(OtherBuild {
                symbols: path.into(),
                path: self.path,
            }),
        }
    }

    /// Returns the path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file itself.
    pub fn elf(&self) -> &Elf {
        &self.elf
    }

    /// Returns the path of its debug file, if it has one.
    pub fn debug_path(&self) -> Option<&Path> {
        self.debug.as_ref().map(|(path, _)| &**path)
    }

    fn files(&self) -> impl Iterator<Item = &Elf> {
        [&self.elf]
            .into_iter()
            .chain(self.debug.as_ref().map(|(_, elf)| elf))
    }

    /// Returns the names of all symbols.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files().flat_map(Elf::names)
    }

    fn is_code(&self, address: u64) -> bool {
        let offset = self.elf.offset_of(address);
        offset.is_some_and(|offset| self.elf.is_code(offset))
    }

    /// Returns what a name stands for: `name@VERSION` for one that is not the default. A function
    /// goes before data of its name.
    pub fn symbol(&self, name: &str) -> Result<Found, PlaceError> {
        let is_code = |found: &Found| self.is_code(found.address);
        lookup(self.files(), name, is_code).map_err(|why| self.refusal(name, why))
    }

    fn refusal(&self, name: &str, why: LookupError) -> PlaceError {
        match why {
            LookupError::None => PlaceError::NoSymbol {
                name: name.to_owned(),
                stripped: self.debug.is_none() && self.elf.is_stripped(),
                near: near(name, self.names()),
            },
            LookupError::NoVersion(versions) => PlaceError::NoVersion {
                wanted: name.to_owned(),
                versions: versions.join(", "),
            },
            LookupError::Ambiguous(all) => PlaceError::Ambiguous {
                name: name.to_owned(),
                places: all
                    .iter()
                    .filter_map(|one| {
                        let offset = self.elf.offset_of(one.address)?;
                        Some((offset, one.distinction().map(str::to_owned)))
                    })
                    .collect(),
            },
        }
    }

    /// Finds the instruction so many bytes from the start of a function.
    pub fn place(&self, name: &str, distance: i128) -> Result<Place, PlaceError> {
        self.place_from(name, self.symbol(name)?, distance)
    }

    fn place_from(&self, name: &str, symbol: Found, distance: i128) -> Result<Place, PlaceError> {
        let text = match distance {
            0 => name.to_owned(),
            _ => format!("{name}{distance:+#x}"),
        };
        let no_code = || PlaceError::NoCode(text.clone());
        let address = i128::from(symbol.address).checked_add(distance);
        let address = address.and_then(|address| u64::try_from(address).ok());
        let address = address.ok_or_else(no_code)?;
        let offset = self.elf.offset_of(address).ok_or_else(no_code)?;
        if !self.elf.is_code(offset) {
            return Err(no_code());
        }
        if symbol.is_resolver {
            let all = self.elf.chosen_by(&symbol);
            let implementations = all.into_iter().map(|address| self.name_of(address));
            return Err(PlaceError::Resolver {
                name: symbol.to_string(),
                implementations: implementations.collect(),
            });
        }
        match self.is_instruction(address) {
            true => Ok(Place {
                offset,
                address,
                symbol: Some(symbol),
            }),
            false => Err(PlaceError::Within(text)),
        }
    }

    /// Finds the instruction at a place in the file.
    pub fn place_at(&self, offset: u64) -> Result<Place, PlaceError> {
        let text = format!("{offset:#x}");
        let address = self.elf.address_of(offset);
        let address = address.filter(|_| self.elf.is_code(offset));
        let address = address.ok_or_else(|| PlaceError::NoCode(text.clone()))?;
        let named = self.files().find_map(|elf| elf.named(address));
        match self.is_instruction(address) {
            true => Ok(Place {
                offset,
                address,
                symbol: named.map(Found::from),
            }),
            false => Err(PlaceError::Within(text)),
        }
    }

    /// Returns the names of functions that `is_it` accepts, and of those that share a name the
    /// places in the file.
    pub fn matching(&self, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let mut names = BTreeMap::<&str, Vec<&Symbol>>::new();
        let symbols = self.files().flat_map(|elf| &elf.symbols);
        for symbol in symbols.filter(|symbol| is_it(&symbol.name)) {
            names.entry(&symbol.name).or_default().push(symbol);
        }
        let mut all = Vec::new();
        for (name, symbols) in names {
            let is_code = |found: &Found| self.is_code(found.address);
            let found = select(symbols, None, is_code).map_err(|why| self.refusal(name, why));
            match found.and_then(|symbol| self.place_from(name, symbol, 0)) {
                Ok(_) => all.push(name.to_owned()),
                Err(PlaceError::Ambiguous { places, .. }) => {
                    let code = places.iter().filter(|(at, _)| self.place_at(*at).is_ok());
                    all.extend(code.map(|(at, _)| format!("{at:#x}")));
                }
                Err(_) => (),
            }
        }
        all
    }

    fn is_instruction(&self, address: u64) -> bool {
        let symbols = self.debug.as_ref().filter(|_| self.is_same_build);
        self.elf
            .is_instruction(address, symbols.map(|(_, elf)| elf))
    }

    /// Returns the returns of a function, if its code is known.
    pub fn returns(&self, function: &Found) -> Option<Returns> {
        self.elf.returns(function)
    }

    /// Returns a name of the function at an address that a probe can take, or its place in the
    /// file.
    fn name_of(&self, address: u64) -> String {
        let mut files = self.files();
        let named = files.find_map(|elf| elf.named(address)).map(Found::from);
        let name = named.map(|symbol| symbol.name);
        let is_alone = |name: &String| self.symbol(name).is_ok_and(|one| one.address == address);
        name.filter(is_alone).unwrap_or_else(|| {
            let offset = self.elf.offset_of(address).unwrap_or(address);
            format!("{offset:#x}")
        })
    }
}

/// Returns the path of what was split from a file, if that is installed.
fn debug_file(elf: &Elf) -> Option<PathBuf> {
    let id = hex(elf.build_id()?);
    let (dir, rest) = id.split_at_checked(2)?;
    let path = Path::new(DEBUG_DIR).join(dir).join(format!("{rest}.debug"));
    path.exists().then_some(path)
}

/// Returns bytes as hexadecimal digits, as tools show build IDs.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
