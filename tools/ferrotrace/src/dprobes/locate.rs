// SPDX-License-Identifier: GPL-2.0

//! From the places of a program file to those of the kernel: symbols of the kernel and its modules with an offset, places in
//! files, addresses.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use ferro_core::rpn::ModuleKind;
use ferro_core::rpn::Point;
use ferro_core::rpn::PointKind;

use super::elf::Elf;
use super::elf::ElfError;
use super::elf::NoSymbol;
use super::kallsyms::Kallsyms;
use super::lang::diagnostic::Diagnostic;
use super::lang::program::Command;
use super::lang::program::Place;
use super::lang::program::ProbePoint;
use super::lang::program::Program;
use super::module_file;
use super::module_file::NoFile;
use super::module_file::running_build_id;
use super::set::Loadable;
use super::set::Located;

/// A file of symbols, of `--sym`.
#[derive(Debug)]
pub enum SymbolFile {
    /// A kernel, a module, or what was separated from an executable.
    Elf(Box<Elf>),
    /// A list.
    List(Kallsyms),
}

impl SymbolFile {
    /// Reads a file.
    pub fn read(path: &Path) -> std::result::Result<Self, ElfError> {
        let error = match Elf::read(path) {
            Ok(elf) => return Ok(Self::Elf(Box::new(elf))),
            Err(error @ ElfError::Io { .. }) => return Err(error),
            Err(error) => error,
        };
        match Kallsyms::read(path) {
            Ok(list) if !list.is_empty() => Ok(Self::List(list)),
            _ => Err(error),
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::Elf(elf) => elf.symbol(name).is_some(),
            Self::List(list) => !list.get(name).is_empty(),
        }
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Self::Elf(elf) => elf.names().collect(),
            Self::List(list) => list.names().collect(),
        }
    }
}

/// Finds places.
#[derive(Debug, Default)]
pub struct Locator {
    kernel: Kallsyms,
    symbols: Option<SymbolFile>,
    files: BTreeMap<PathBuf, Elf>,
    /// Files of modules, by the modules' names, or why there is none.
    modules: BTreeMap<String, std::result::Result<(PathBuf, Elf), String>>,
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl Locator {
    /// With the symbols of the running kernel, and those of `--sym`. Without any, kernel symbols are taken as they are.
    pub fn new(kernel: Kallsyms, symbols: Option<SymbolFile>) -> Self {
        Self {
            kernel,
            symbols,
            files: BTreeMap::new(),
            modules: BTreeMap::new(),
        }
    }

    /// Finds the places of a program. What is wrong goes to `diagnostics`; the program is not whole if that is an error.
    pub fn program(&mut self, program: &Program, diagnostics: &mut Vec<Diagnostic>) -> Loadable {
        let is_user = program.header.kind == ModuleKind::User;
        if is_user {
            diagnostics.extend(self.open(program).err());
        }
        if program.header.kind == ModuleKind::Module {
            self.open_module(program);
        }
        let is_open = !is_user || self.files.contains_key(Path::new(&program.name));
        let mut points = Vec::new();
        for point in program.points.iter().filter(|_| is_open) {
            let located = self.point(program, point, diagnostics);
            let all = match (located, point.returns) {
                (Ok(located), true) => self.returns(program, point, located, diagnostics),
                (located, _) => located.map(|located| vec![located]),
            };
            match all {
                Ok(all) => points.extend(all),
                Err(error) => diagnostics.push(error),
            }
        }
        let name = match program.header.kind {
            // Whatever the file is called.
            ModuleKind::Kernel => "vmlinux",
            _ => &program.name,
        };
        Loadable {
            header: program.header,
            name: name.to_owned(),
            points,
        }
    }

    /// Opens the executable or library of a program.
    fn open(&mut self, program: &Program) -> Result<()> {
        let path = Path::new(&program.name);
        let error = |message: String| Diagnostic::error(program.name_span, message);
        if !path.is_absolute() {
            return Err(error(format!("{} is not a whole path", program.name))
                .help("a program or a library is named from / on"));
        }
        if self.files.contains_key(path) {
            return Ok(());
        }
        let elf = Elf::read(path).map_err(|source| match source {
            ElfError::Io { source, .. } => error(format!("cannot read {}: {source}", program.name)),
            other => error(other.to_string()),
        })?;
        self.files.insert(path.to_owned(), elf);
        Ok(())
    }

    /// Reads the file of a module, if places in it have to be found, and `--sym` does not name it. What is wrong is said where such a
    /// place is.
    fn open_module(&mut self, program: &Program) {
        let name = &program.name;
        let is_in_file = |point: &ProbePoint| {
            let Point {
                is_absolute,
                is_later,
                ..
            } = point.point;
            point.place.symbol.is_none() && !is_absolute && !is_later
        };
        let is_named = matches!(self.symbols, Some(SymbolFile::Elf(_)));
        if is_named || self.modules.contains_key(name) || !program.points.iter().any(is_in_file) {
            return;
        }
        let path = module_file::find(&module_file::directory(), name);
        let opened = path.map_err(|why| match why {
            NoFile::NoList(list) => format!("there is no {}", list.display()),
            NoFile::NotListed(dir) => format!("there is no module {name} in {}", dir.display()),
            NoFile::Compressed(path) => format!("{} is compressed", path.display()),
        });
        let opened = opened.and_then(|path| match Elf::read(&path) {
            Ok(elf) => Ok((path, elf)),
            Err(error) => Err(error.to_string()),
        });
        self.modules.insert(name.clone(), opened);
    }

    fn point(
        &self,
        program: &Program,
        source: &ProbePoint,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Located> {
        let mut code = Vec::new();
        for command in &source.code {
            match self.command(command) {
                Ok(insn) => code.push(insn),
                Err(error) => diagnostics.push(error),
            }
        }
        let mut located = Located {
            point: source.point,
            symbol: String::new(),
            code,
        };
        let warning = match program.header.kind {
            _ if source.point.is_later => None,
            ModuleKind::User => self.in_file(program, source, &mut located)?,
            _ => self.in_kernel(program, source, &mut located)?,
        };
        diagnostics.extend(warning);
        Ok(located)
    }

    /// A point at each return of the function at which `entry` is.
    fn returns(
        &self,
        program: &Program,
        source: &ProbePoint,
        entry: Located,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Vec<Located>> {
        let span = source.place.span;
        let name = source.place.symbol.as_deref().unwrap_or_default();
        let symbols = match &self.symbols {
            Some(SymbolFile::Elf(elf)) => Some(&**elf),
            _ => None,
        };
        let own = self.files.get(Path::new(&program.name));
        let mut files = [own, symbols].into_iter().flatten();
        let Some(returns) = files.find_map(|elf| elf.returns(name)) else {
            let error = Diagnostic::error(span, format!("the code of {name} is not known"));
            return Err(match program.header.kind {
                ModuleKind::User => error,
                _ => error.help("--sym names the file that has it: vmlinux, or the module"),
            });
        };
        if returns.offsets.is_empty() {
            return Err(Diagnostic::error(span, format!("{name} has no return")));
        }
        if returns.leaves != 0 {
            let message = format!(
                "{name} also ends by {} jumps to other functions, which return for it unseen",
                returns.leaves
            );
            diagnostics.push(Diagnostic::warning(span, message));
        }
        let points = returns.offsets.into_iter().map(|offset| {
            let mut located = entry.clone();
            located.point.offset = located.point.offset.saturating_add(offset);
            located
        });
        Ok(points.collect())
    }

    /// An instruction, with the address of the symbol that it pushes.
    fn command(&self, command: &Command) -> Result<ferro_core::rpn::Insn> {
        let Some(symbol) = &command.symbol else {
            return Ok(command.insn);
        };
        let error = |message: String| Diagnostic::error(symbol.span, message);
        let all = self.kernel.get(&symbol.name);
        let Some(found) = all.first() else {
            let message = match self.kernel.is_empty() {
                true => format!(
                    "the address of {} is not known without the kernel",
                    symbol.name
                ),
                false => format!("the kernel has no symbol {}", symbol.name),
            };
            return Err(error(message).near(&symbol.name, self.kernel.names()));
        };
        if found.address == 0 {
            return Err(error(format!(
                "the kernel does not tell the address of {}",
                symbol.name
            ))
            .help("only root may see it (kernel.kptr_restrict)"));
        }
        if all.iter().any(|one| one.address != found.address) {
            return Err(
                error(format!("there are {} symbols {}", all.len(), symbol.name))
                    .help("give the address of the one that is meant"),
            );
        }
        let address = found.address.wrapping_add(command.insn.word());
        Ok(ferro_core::rpn::Insn::push(address))
    }

    /// A place in the kernel or a module. May warn.
    fn in_kernel(
        &self,
        program: &Program,
        source: &ProbePoint,
        located: &mut Located,
    ) -> Result<Option<Diagnostic>> {
        let place = &source.place;
        let Some(name) = &place.symbol else {
            located.point.offset = offset(place)?;
            if !source.point.is_absolute {
                return self.of_kernel_file(program, place, located);
            }
            return Ok(None);
        };
        located.point.is_absolute = false;
        located.point.offset = offset(place)?;
        located.symbol.clone_from(name);
        let is_module = program.header.kind == ModuleKind::Module;
        let none = |what: &str, names: Vec<&str>| {
            let error = Diagnostic::error(place.span, format!("{what} has no symbol {name}"));
            Err(error.near(name, names))
        };
        if is_module && !self.kernel.has_module(&program.name) {
            // It will be looked for when the module is loaded.
            return match &self.symbols {
                Some(file) if !file.has(name) => none(&program.name, file.names()),
                _ => Ok(None),
            };
        }
        if self.kernel.is_empty() {
            return match &self.symbols {
                Some(file) if !file.has(name) => none("the file of symbols", file.names()),
                _ => Ok(None),
            };
        }
        let module = is_module.then_some(program.name.as_str());
        let mut all = self.kernel.get(name);
        all.retain(|one| one.module == module);
        let Some(first) = all.first() else {
            let names: Vec<_> = self.kernel.names().collect();
            return none(module.unwrap_or("the kernel"), names);
        };
        if source.point.kind == PointKind::Breakpoint && !first.is_code {
            return Err(Diagnostic::error(place.span, format!("{name} is data"))
                .help("watch = w makes this a watchpoint"));
        }
        let count = all.len();
        Ok((count > 1).then(|| {
            let message = format!("there are {count} symbols {name}; the kernel takes one of them");
            Diagnostic::warning(place.span, message)
        }))
    }

    /// A place in the file of the kernel or of a module, as a symbol and a distance. May warn.
    fn of_kernel_file(
        &self,
        program: &Program,
        place: &Place,
        located: &mut Located,
    ) -> Result<Option<Diagnostic>> {
        let error = |message: String| Diagnostic::error(place.span, message);
        let name = &program.name;
        let module = (program.header.kind == ModuleKind::Module).then_some(name.as_str());
        let (file, elf) = match (&self.symbols, self.modules.get(name)) {
            (Some(SymbolFile::Elf(elf)), _) => ("the file of --sym".to_owned(), &**elf),
            (_, Some(Ok((path, elf)))) => (path.display().to_string(), elf),
            (_, found) => {
                let message = match found {
                    Some(Err(why)) => format!("this is a place in a file, and {why}"),
                    _ => "this is a place in a file, and the file is not known".to_owned(),
                };
                return Err(error(message)
                    .help("--sym names it: vmlinux, or the module; address = is for addresses"));
            }
        };
        let loaded = module.and_then(|module| running_build_id(Path::new("/"), Some(module)));
        if let (Some(loaded), Some(own)) = (loaded, elf.build_id()) {
            if loaded != own {
                let message = format!("{file} is not what the loaded {name} is from");
                return Err(error(message).help("their build IDs differ"));
            }
        }
        // The kernel would take any of several.
        let is_one = |symbol: &str| {
            let all = self.kernel.get(symbol);
            all.iter().filter(|one| one.module == module).count() <= 1
        };
        let found = elf.symbol_at(offset(place)?, is_one);
        let found = found.map_err(|why| match why {
            NoSymbol::Outside => error(format!("{file} ends before this place")),
            NoSymbol::NoCode => error(format!("at this place in {file} there is no code")),
            NoSymbol::NoName => error(format!(
                "no symbol before this place in {file} has a name of its own"
            )),
        })?;
        found.symbol.clone_into(&mut located.symbol);
        located.point.offset = found.distance;
        let message = "this code is only there while the module begins";
        Ok(found
            .is_init
            .then(|| Diagnostic::warning(place.span, message)))
    }

    /// A place in an executable or a library. May warn.
    fn in_file(
        &self,
        program: &Program,
        source: &ProbePoint,
        located: &mut Located,
    ) -> Result<Option<Diagnostic>> {
        let place = &source.place;
        let error = |message: String| Diagnostic::error(place.span, message);
        let Some(elf) = self.files.get(Path::new(&program.name)) else {
            return Err(error(format!("{} is not open", program.name)));
        };
        let mut warning = None;
        let (address, is_address) = match &place.symbol {
            None => (offset(place)?, source.point.is_absolute),
            Some(name) => {
                let found = match &self.symbols {
                    Some(SymbolFile::Elf(file)) => file.symbol(name).or(elf.symbol(name)),
                    _ => elf.symbol(name),
                };
                let Some(found) = found else {
                    return Err(error(format!("{} has no symbol {name}", program.name))
                        .near(name, elf.names()));
                };
                if found.is_resolver {
                    let message = format!(
                        "{name} is not a function, but what chooses one when a program starts"
                    );
                    warning = Some(Diagnostic::warning(place.span, message));
                }
                let number = i128::from(found.address).checked_add(place.number);
                let address = number.and_then(|number| u64::try_from(number).ok());
                let outside = || error(format!("this is outside of {}", program.name));
                (address.ok_or_else(outside)?, true)
            }
        };
        if source.point.kind != PointKind::Breakpoint {
            if place.symbol.is_some() && !elf.is_fixed() {
                return Err(error(format!(
                    "{} has no fixed addresses, so that it is not known what to watch",
                    program.name
                ))
                .help("a program can watch an address that it finds; address = is for addresses"));
            }
            if !is_address {
                return Err(error("a watchpoint needs an address: address =".to_owned()));
            }
            located.point.is_absolute = true;
            located.point.offset = address;
            return Ok(warning);
        }
        located.point.is_absolute = false;
        located.point.offset = match is_address {
            true => elf
                .offset_of(address)
                .ok_or_else(|| error(format!("{} has nothing at {address:#x}", program.name)))?,
            false => address,
        };
        if !elf.is_code(located.point.offset) {
            // Nothing would ever stop there.
            let message = format!("at this place in {} there is no code", program.name);
            return Err(match place.symbol {
                Some(_) => error(message)
                    .help("watch = w makes this a watchpoint, if the file has fixed addresses"),
                None => error(message),
            });
        }
        Ok(warning)
    }
}

/// The number of a place, which must not be negative.
fn offset(place: &Place) -> Result<u64> {
    u64::try_from(place.number).map_err(|_| {
        let what = match &place.symbol {
            Some(symbol) => format!("this is before {symbol}"),
            None => "this is no place".to_owned(),
        };
        Diagnostic::error(place.span, what)
    })
}
