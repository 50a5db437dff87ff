// SPDX-License-Identifier: GPL-2.0

//! Symbols by their names and versions.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use object::Object;
use object::ObjectSymbol;
use object::SectionIndex;
use object::SymbolKind;
use object::elf::STT_GNU_IFUNC;
use object::read::elf::ElfFile;
use object::read::elf::FileHeader;
use object::read::elf::VersionTable;

use super::Elf;

/// A symbol of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Its name, without the version.
    pub(super) name: String,
    /// Its version, if it has one.
    version: Option<String>,
    /// True if its version is not the default: no program that is linked today gets it.
    is_old: bool,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) section: Option<SectionIndex>,
    is_function: bool,
    is_resolver: bool,
    /// For a local one the source file, if that is known.
    source: Option<Rc<str>>,
}

impl Symbol {
    /// Returns true if it may be a function: data has another type, and marks within functions have
    /// none.
    pub(super) fn is_function(&self) -> bool {
        self.is_function
    }
}

impl From<&Symbol> for Found {
    fn from(symbol: &Symbol) -> Self {
        Self {
            name: symbol.name.clone(),
            version: symbol.version.clone(),
            is_old: symbol.is_old,
            address: symbol.address,
            size: symbol.size,
            is_resolver: symbol.is_resolver,
            source: symbol.source.clone(),
            section: symbol.section,
        }
    }
}

/// The symbol that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name, without the version.
    pub name: String,
    /// Its version, if it has one.
    pub version: Option<String>,
    /// True if its version is not the default.
    is_old: bool,
    /// Its address in the file's own numbers.
    pub address: u64,
    /// Its bytes; 0 if that is not known.
    pub size: u64,
    /// True if it chooses a function when a program starts, and is none itself (`STT_GNU_IFUNC`).
    pub is_resolver: bool,
    /// For a local one the source file, if that is known.
    source: Option<Rc<str>>,
    pub(super) section: Option<SectionIndex>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.version {
            Some(version) if self.is_old => write!(f, "@{version}"),
            Some(version) => write!(f, "@@{version}"),
            None => Ok(()),
        }
    }
}

/// Why a name stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// No symbol has this name.
    None,
    /// None of that name has this version; it has these.
    NoVersion(Vec<String>),
    /// Several have it, at different addresses.
    Ambiguous(Vec<Found>),
}

impl Found {
    /// Returns what tells it from others of its name: the source file or the version, if one is
    /// known.
    pub(super) fn distinction(&self) -> Option<&str> {
        self.source.as_deref().or(self.version.as_deref())
    }
}

/// Splits a name from its version: `name@VERSION`, or `name@@VERSION` for the default one.
fn split(text: &str) -> (&str, Option<(&str, bool)>) {
    match text.split_once('@') {
        None | Some(("", _)) => (text, None),
        Some((name, version)) => match version.strip_prefix('@') {
            Some(version) => (name, Some((version, false))),
            None => (name, Some((version, true))),
        },
    }
}

/// The versions of dynamic symbols by their numbers, and whether they are old ones.
fn versions<H: FileHeader>(file: &ElfFile<'_, H>) -> BTreeMap<usize, (String, bool)> {
    let table = file
        .elf_section_table()
        .versions(file.endian(), file.data());
    let Ok(Some(table)) = table else {
        return BTreeMap::new();
    };
    let version = |table: &VersionTable<'_, H>, symbol: object::SymbolIndex| {
        let index = table.version_index(file.endian(), symbol);
        let version = table.version(index.index()).ok()??;
        let name = String::from_utf8_lossy(version.name()).into_owned();
        Some((symbol.0, (name, index.is_hidden())))
    };
    let all = file.elf_dynamic_symbol_table().enumerate();
    all.filter_map(|(index, _)| version(&table, index))
        .collect()
}

/// Reads the symbols of both tables, in the order of their sections and addresses, whose names have
/// so many bytes at most: each symbol of a damaged file may have all of the file for its name.
pub(super) fn read(file: &object::File<'_>, mut room: usize) -> Vec<Symbol> {
    let versions = match file {
        object::File::Elf32(file) => versions(file),
        object::File::Elf64(file) => versions(file),
        _ => BTreeMap::new(),
    };
    let mut source: Option<Rc<str>> = None;
    let mut symbols = Vec::new();
    for symbol in file.symbols() {
        if symbol.kind() == SymbolKind::File {
            let name = symbol.name().ok().filter(|name| !name.is_empty());
            source = name.map(Rc::from);
            continue;
        }
        symbols.extend(of_table(&symbol, &mut room).map(|found| Symbol {
            source: source.clone().filter(|_| symbol.is_local()),
            ..found
        }));
    }
    let dynamic = file.dynamic_symbols().filter_map(|symbol| {
        let found = of_table(&symbol, &mut room)?;
        let Some((version, is_old)) = versions.get(&symbol.index().0) else {
            return Some(found);
        };
        Some(Symbol {
            version: Some(version.clone()),
            is_old: *is_old,
            ..found
        })
    });
    symbols.extend(dynamic);
    symbols.sort_by(|a, b| {
        (a.section.map(|one| one.0), a.address, &a.name).cmp(&(
            b.section.map(|one| one.0),
            b.address,
            &b.name,
        ))
    });
    symbols
}

/// Makes one of a table's entry, if it is in this file and names code or data.
fn of_table(symbol: &object::Symbol<'_, '_>, room: &mut usize) -> Option<Symbol> {
    let is_resolver = matches!(
        symbol.flags(),
        object::SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC
    );
    let is_named = matches!(
        symbol.kind(),
        SymbolKind::Text | SymbolKind::Data | SymbolKind::Unknown | SymbolKind::Label
    );
    let is_here = symbol.is_definition() || is_resolver && !symbol.is_undefined();
    if !is_here || !(is_named || is_resolver) {
        return None;
    }
    let name = symbol.name().ok().filter(|name| !name.is_empty())?;
    *room = room.checked_sub(name.len())?;
    let (name, version) = split(name);
    Some(Symbol {
        name: name.to_owned(),
        version: version.map(|(version, _)| version.to_owned()),
        is_old: version.is_some_and(|(_, is_old)| is_old),
        address: symbol.address(),
        size: symbol.size(),
        section: symbol.section_index(),
        is_function: is_resolver || symbol.kind() == SymbolKind::Text,
        is_resolver,
        source: None,
    })
}

impl Elf {
    /// Looks a name up. `name@VERSION` selects a version; without one the default version is taken.
    pub fn lookup(&self, name: &str) -> Result<Found, LookupError> {
        lookup([self], name, |_| true)
    }

    /// Returns the bytes of a symbol, if they are known.
    pub fn size_of(&self, name: &str) -> Option<u64> {
        let found = self.symbols.iter().find(|symbol| symbol.name == name);
        found.map(|symbol| symbol.size)
    }

    /// Returns true if a symbol has this name.
    pub fn has(&self, name: &str) -> bool {
        !matches!(self.lookup(name), Err(LookupError::None))
    }

    /// Returns all names, without versions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().map(|symbol| symbol.name.as_str())
    }

    /// Returns a symbol that begins at an address: one with a size, if there is any.
    pub(super) fn named(&self, address: u64) -> Option<&Symbol> {
        let all = self
            .symbols
            .iter()
            .filter(|symbol| symbol.address == address);
        all.max_by_key(|symbol| symbol.size != 0)
    }
}

/// Looks a name up in several files of one build, such as a program and its debug file. Of symbols
/// that `is_preferred` accepts and others, the others are left out.
pub(super) fn lookup<'a>(
    files: impl IntoIterator<Item = &'a Elf>,
    text: &str,
    is_preferred: impl Fn(&Found) -> bool,
) -> Result<Found, LookupError> {
    let (name, version) = split(text);
    let symbols = files.into_iter().flat_map(|elf| &elf.symbols);
    let symbols = symbols.filter(|symbol| symbol.name == name);
    select(symbols, version.map(|(version, _)| version), is_preferred)
}

/// Chooses among the symbols of a name.
pub(super) fn select<'a>(
    symbols: impl IntoIterator<Item = &'a Symbol>,
    wanted: Option<&str>,
    is_preferred: impl Fn(&Found) -> bool,
) -> Result<Found, LookupError> {
    // Of one address there are often several symbols, in one table and in two.
    let mut all = BTreeMap::<(Option<usize>, u64), Found>::new();
    let mut versions = Vec::new();
    for symbol in symbols {
        versions.extend(symbol.version.clone());
        let key = (symbol.section.map(|one| one.0), symbol.address);
        let found = all.entry(key).or_insert_with(|| symbol.into());
        found.size = found.size.max(symbol.size);
        found.is_resolver |= symbol.is_resolver;
        // An address can have several versions, of which the wanted one counts, or else the
        // default.
        let is_better = match wanted {
            Some(wanted) => symbol.version.as_deref() == Some(wanted),
            None => found.version.is_none() || !symbol.is_old,
        };
        if is_better && symbol.version.is_some() {
            found.version.clone_from(&symbol.version);
            found.is_old = symbol.is_old;
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    if all.is_empty() {
        return Err(LookupError::None);
    }
    if let Some(wanted) = wanted {
        all.retain(|one| one.version.as_deref() == Some(wanted));
        if all.is_empty() {
            versions.sort();
            versions.dedup();
            return Err(LookupError::NoVersion(versions));
        }
    } else if all.iter().any(|one| !one.is_old) {
        all.retain(|one| !one.is_old);
    }
    if all.iter().any(&is_preferred) {
        all.retain(is_preferred);
    }
    match (all.pop(), all.is_empty()) {
        (Some(found), true) => Ok(found),
        (found, _) => {
            all.extend(found);
            Err(LookupError::Ambiguous(all))
        }
    }
}
