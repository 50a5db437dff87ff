// SPDX-License-Identifier: GPL-2.0

//! What functions of the kernel take and return, from BTF or DWARF.

#![deny(unsafe_code)]

mod btf;
mod dwarf;

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

/// Where a running kernel has its types, and those of its modules.
const BTF_DIR: &str = "sys/kernel/btf";

/// A type, as its source knows it.
pub type Id = u64;

/// What can be done with a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer, a truth value or an enumeration.
    Number {
        /// Its bytes.
        size: u64,
        /// Whether it may be negative.
        signed: bool,
        /// Whether it is a character.
        is_char: bool,
    },
    /// A pointer; to nothing that is known, if it is to `void`.
    Pointer {
        /// What it points to.
        to: Option<Id>,
        /// Whether that is constant.
        is_const: bool,
    },
    /// A structure or a union.
    Struct {
        /// Its name, with `struct` or `union`.
        name: String,
        /// Its bytes.
        size: u64,
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
    /// What it returns, unless that is nothing.
    pub returns: Option<Id>,
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
        /// What is wrong.
        what: String,
    },
}

/// The result of looking for types.
pub type Result<T> = std::result::Result<T, Error>;

/// A source of types.
pub trait Types {
    /// The function of this name.
    fn function(&self, name: &str) -> Result<Option<Function>>;
    /// The lines of a function that have code, and where that begins, in bytes from its start; the line with its name is 0. None if
    /// that is not known.
    fn lines(&self, _function: &str) -> Result<BTreeMap<u64, u32>> {
        Ok(BTreeMap::new())
    }
    /// Where a parameter of a function is, so many bytes from the function's start. `None` if it is nowhere any more, or if that is
    /// not known.
    fn located(&self, _function: &str, _parameter: &str, _offset: u32) -> Result<Option<Located>> {
        Ok(None)
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
    fn function(&self, name: &str) -> Result<Option<Function>> {
        self.btf.function(name)
    }

    fn lines(&self, function: &str) -> Result<BTreeMap<u64, u32>> {
        let dwarf = self.dwarf()?;
        dwarf.map_or(Ok(BTreeMap::new()), |dwarf| dwarf.lines(function))
    }

    fn located(&self, function: &str, parameter: &str, offset: u32) -> Result<Option<Located>> {
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
