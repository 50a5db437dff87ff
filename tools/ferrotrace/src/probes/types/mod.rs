// SPDX-License-Identifier: GPL-2.0

//! What functions of the kernel take and return, from BTF or DWARF.

#![deny(unsafe_code)]

pub mod abi;
mod btf;
mod dwarf;
mod layout;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use nix::sys::utsname::uname;
use thiserror::Error;

use crate::dprobes::module_file::find;
use crate::dprobes::module_file::running_build_id;

pub use btf::BtfTypes;
pub use dwarf::DwarfTypes;
pub(crate) use layout::layout;
pub(crate) use layout::size_of;

/// Where a running kernel has its types, and those of its modules.
const BTF_DIR: &str = "sys/kernel/btf";

/// A type, as its source knows it.
pub type Id = u64;

/// Shape of a type: the operations that its values allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer, a truth value or an enumeration.
    Number {
        /// Its bytes.
        size: u64,
        /// True if the type is signed.
        signed: bool,
        /// True if the type is a character.
        is_char: bool,
    },
    /// A number of a floating-point type.
    Float {
        /// Its bytes.
        size: u64,
        /// How many numbers it has: 2 if it is complex.
        count: u64,
        /// True if it is a `long double`.
        is_x87: bool,
    },
    /// A vector, as SSE registers have it.
    Vector {
        /// Its bytes.
        size: u64,
    },
    /// A pointer; to nothing that is known, if it is to `void`.
    Pointer {
        /// Type of the target.
        to: Option<Id>,
        /// True if the target is constant.
        is_const: bool,
    },
    /// A structure or a union.
    Struct {
        /// Its name, with `struct` or `union`.
        name: String,
        /// Its bytes.
        size: u64,
        /// Its alignment, if it says so itself.
        align: Option<u64>,
        /// True if functions are given a pointer to it in its place (C++).
        by_reference: bool,
    },
    /// An array.
    Array {
        /// Of what.
        of: Id,
        /// How many.
        len: u64,
    },
    /// A function, to which something points.
    Function,
    /// Anything else, by its name.
    Other(&'static str),
}

impl Shape {
    /// That of a floating-point type of so many bytes, with this name.
    fn float(name: &str, size: u64, is_complex: bool) -> Self {
        let names = ["long double", "_Float64x", "__float80", "real(kind=10)"];
        Self::Float {
            size,
            count: if is_complex { 2 } else { 1 },
            is_x87: names.iter().any(|known| name.contains(known)),
        }
    }
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty if it is a structure without one, whose members are also those of this structure.
    pub name: String,
    /// Its type.
    pub ty: Id,
    /// Where it begins.
    pub bit_offset: u64,
    /// For a bit field, how many bits it has.
    pub bits: Option<u64>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Id,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Type of the result, if any.
    pub returns: Option<Id>,
    /// How it is called.
    pub convention: Convention,
}

/// How a function is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Convention {
    /// By the System V ABI.
    #[default]
    SystemV,
    /// By that of another language, which agrees with it on scalars.
    Other,
    /// As the compiler wanted: it has removed parameters or the result (`DW_CC_nocall`).
    Changed,
}

/// A function to look for.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Its name, without a version.
    pub name: &'a str,
    /// Where it begins, in the file's own numbers, if that is known.
    pub start: Option<u64>,
}

/// The place of a parameter at the entry of its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtEntry {
    /// DWARF says where it is.
    Located(Located),
    /// The compiler has removed it.
    Removed,
    /// Nothing else than the convention says where it is.
    ByConvention,
}

/// Where a parameter is while a function runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// In a register, by the name that it has in a probe.
    Register(&'static str),
    /// In memory, so many bytes behind where a register points.
    Memory {
        /// The register.
        base: &'static str,
        /// The distance.
        offset: i64,
    },
    /// In pieces of so many bits, from the first one on: in these registers, or where a probe cannot read.
    Pieces(Vec<(u64, Option<&'static str>)>),
}

/// Why types are not known.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing says what they are.
    #[error(
        "the running kernel has no {}, and no vmlinux with debugging information was found: --btf FILE or --vmlinux FILE \
         says where they are, and arguments can be given by their registers (%di, $arg1)",
        .0.display()
    )]
    None(PathBuf),
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is nothing of that in the file.
    #[error("{}: has no debugging information (DWARF)", .0.display())]
    NoDwarf(PathBuf),
    /// The file is not what it should be.
    #[error("{}: {what}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// Error in the types.
        what: String,
    },
}

/// The result of looking for types.
pub type Result<T> = std::result::Result<T, Error>;

/// A source of types.
pub trait Types {
    /// Returns the types of a function.
    fn function(&self, function: Named<'_>) -> Result<Option<Function>>;
    /// The lines of a function that have code, and where that begins, in bytes from its start; the line with its name is 0. None if
    /// that is not known.
    fn lines(&self, _function: Named<'_>) -> Result<BTreeMap<u64, u32>> {
        Ok(BTreeMap::new())
    }
    /// Where a parameter of a function is, so many bytes from the function's start. `None` if it is nowhere any more, or if that is
    /// not known.
    fn located(
        &self,
        _function: Named<'_>,
        _parameter: &str,
        _offset: u32,
    ) -> Result<Option<Located>> {
        Ok(None)
    }
    /// Returns what is known of a parameter at the entry of a function.
    fn at_entry(&self, _function: Named<'_>, _parameter: &str) -> Result<AtEntry> {
        Ok(AtEntry::ByConvention)
    }
    /// A type, without `const` and other names for it.
    fn shape(&self, ty: Id) -> Result<Shape>;
    /// The members of a structure.
    fn members(&self, ty: Id) -> Result<Vec<Member>>;
}

/// Where the user says that types are.
#[derive(Clone, Debug)]
pub struct Source {
    /// A file with BTF.
    pub btf: Option<PathBuf>,
    /// A kernel with DWARF.
    pub vmlinux: Option<PathBuf>,
    /// Where the files of the running system are, its `sysfs` included.
    pub root: PathBuf,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            btf: None,
            vmlinux: None,
            root: "/".into(),
        }
    }
}

impl Source {
    /// Opens the types of the kernel, or of one of its modules.
    pub fn open(&self, module: Option<&str>) -> Result<Box<dyn Types>> {
        if let Some(path) = &self.btf {
            return Ok(Box::new(BtfTypes::open(path, None)?));
        }
        if let Some(path) = &self.vmlinux {
            let running = running_build_id(&self.root, module);
            return Ok(Box::new(DwarfTypes::open(path, running)?));
        }
        let dir = self.root.join(BTF_DIR);
        let base = dir.join("vmlinux");
        if base.exists() {
            let own = module.map(|module| dir.join(module));
            return Ok(Box::new(WithPlaces {
                btf: BtfTypes::open(&base, own.as_deref())?,
                source: self.clone(),
                module: module.map(str::to_owned),
                dwarf: OnceCell::new(),
            }));
        }
        match self.dwarf(module)? {
            Some(types) => Ok(Box::new(types)),
            None => Err(Error::None(base)),
        }
    }

    /// The DWARF of the kernel, or of one of its modules, if it is where distributions have it.
    fn dwarf(&self, module: Option<&str>) -> Result<Option<DwarfTypes>> {
        let release = uname().map(|names| names.release().to_owned());
        let release = release.unwrap_or_default();
        let directory = self.root.join("lib/modules").join(&release);
        if let Some(path) = module.and_then(|module| find(&directory, module).ok()) {
            return DwarfTypes::open(&path, running_build_id(&self.root, module)).map(Some);
        }
        let name = format!("vmlinux-{}", release.to_string_lossy());
        let places = [
            self.root.join("usr/lib/debug/boot").join(name),
            directory.join("build/vmlinux"),
        ];
        let found = places.iter().find(|path| path.exists());
        let open = |path| DwarfTypes::open(path, running_build_id(&self.root, None));
        found.map(|path| open(path)).transpose()
    }
}

/// Types from BTF, and places within functions, which BTF does not have, from DWARF, if there is any.
struct WithPlaces {
    btf: BtfTypes,
    source: Source,
    module: Option<String>,
    /// Opened when a place is asked for.
    dwarf: OnceCell<Option<DwarfTypes>>,
}

impl WithPlaces {
    fn dwarf(&self) -> Result<Option<&DwarfTypes>> {
        if self.dwarf.get().is_none() {
            let found = match self.source.dwarf(self.module.as_deref()) {
                Err(Error::NoDwarf(_)) => None,
                found => found?,
            };
            // Nobody else does.
            let _ = self.dwarf.set(found);
        }
        Ok(self.dwarf.get().and_then(Option::as_ref))
    }
}

impl Types for WithPlaces {
    fn function(&self, function: Named<'_>) -> Result<Option<Function>> {
        self.btf.function(function)
    }

    fn lines(&self, function: Named<'_>) -> Result<BTreeMap<u64, u32>> {
        let dwarf = self.dwarf()?;
        dwarf.map_or(Ok(BTreeMap::new()), |dwarf| dwarf.lines(function))
    }

    fn located(
        &self,
        function: Named<'_>,
        parameter: &str,
        offset: u32,
    ) -> Result<Option<Located>> {
        let dwarf = self.dwarf()?;
        dwarf.map_or(Ok(None), |dwarf| dwarf.located(function, parameter, offset))
    }

    fn shape(&self, ty: Id) -> Result<Shape> {
        self.btf.shape(ty)
    }

    fn members(&self, ty: Id) -> Result<Vec<Member>> {
        self.btf.members(ty)
    }
}
