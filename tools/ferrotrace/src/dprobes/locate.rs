// SPDX-License-Identifier: GPL-2.0

//! From the places of a program file to those of the kernel: symbols of the kernel and its modules with an offset, places in
//! files, addresses.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use ferro_dprobes_core::ModuleKind;
use ferro_dprobes_core::Point;
use ferro_dprobes_core::PointKind;

use super::lang::diagnostic::Diagnostic;
use super::lang::program::Command;
use super::lang::program::Place;
use super::lang::program::ProbePoint;
use super::lang::program::Program;
use super::lang::source::Span;
use super::module_file;
use super::module_file::NoFile;
use super::module_file::running_build_id;
use super::set::Loadable;
use super::set::Located;
use crate::elf::Binary;
use crate::elf::Elf;
use crate::elf::ElfError;
use crate::elf::Found;
use crate::elf::LookupError;
use crate::elf::NoSymbol;
use crate::elf::Returns;
use crate::elf::binary::PlaceError;
use crate::kallsyms::Kallsyms;
use crate::near::did_you_mean;

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
            Self::Elf(elf) => elf.has(name),
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

/// Options of a look-up.
#[derive(Debug)]
pub struct Options {
    /// The file of `--sym`, with its path.
    pub symbols: Option<(PathBuf, SymbolFile)>,
    /// True if that may be of another build than what is probed.
    pub any_build: bool,
    /// Where the files of the running system are.
    pub root: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            symbols: None,
            any_build: false,
            root: "/".into(),
        }
    }
}

/// Finds places.
#[derive(Debug, Default)]
pub struct Locator {
    kernel: Kallsyms,
    options: Options,
    files: BTreeMap<PathBuf, Binary>,
    /// Files of modules, by the modules' names, or why there is none.
    modules: BTreeMap<String, std::result::Result<(PathBuf, Elf), String>>,
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl Locator {
    /// Uses the symbols of the running kernel; without any, kernel symbols are taken as they are.
    pub fn new(kernel: Kallsyms, options: Options) -> Self {
        Self {
            kernel,
            options,
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
                (Ok((located, function)), true) => {
                    self.returns(program, point, located, function, diagnostics)
                }
                (located, _) => located.map(|(located, _)| vec![located]),
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

    /// Returns the file of `--sym`, if it is a kernel or a module.
    fn kernel_symbols(&self) -> Option<(&Path, &Elf)> {
        match &self.options.symbols {
            Some((path, SymbolFile::Elf(elf))) if elf.is_kernel() => Some((path, elf)),
            _ => None,
        }
    }

    fn symbols(&self) -> Option<&SymbolFile> {
        self.options.symbols.as_ref().map(|(_, file)| file)
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
        let binary = Binary::open(path).map_err(|source| match source {
            ElfError::Io { source, .. } => error(format!("cannot read {}: {source}", program.name)),
            other => error(other.to_string()),
        })?;
        let binary = match &self.options.symbols {
            Some((symbols, SymbolFile::Elf(elf))) if !elf.is_kernel() => {
                let binary = binary.with_symbols(symbols, elf, self.options.any_build);
                binary.map_err(|other| error(other.to_string()))?
            }
            _ => binary,
        };
        self.files.insert(path.to_owned(), binary);
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
        if self.kernel_symbols().is_some()
            || self.modules.contains_key(name)
            || !program.points.iter().any(is_in_file)
        {
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
    ) -> Result<(Located, Option<Found>)> {
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
        let mut function = None;
        match program.header.kind {
            _ if source.point.is_later => (),
            ModuleKind::User => function = self.in_file(program, source, &mut located)?,
            _ => diagnostics.extend(self.in_kernel(program, source, &mut located)?),
        }
        Ok((located, function))
    }

    /// Makes a point at each return of the function at which `entry` is.
    fn returns(
        &self,
        program: &Program,
        source: &ProbePoint,
        entry: Located,
        function: Option<Found>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Vec<Located>> {
        let span = source.place.span;
        let is_user = program.header.kind == ModuleKind::User;
        let binary = self.files.get(Path::new(&program.name));
        let (name, returns) = match (binary.filter(|_| is_user), function) {
            (Some(binary), Some(function)) => (function.to_string(), binary.returns(&function)),
            (Some(_), None) => {
                let message = "no function begins at this place";
                return Err(Diagnostic::error(span, message));
            }
            (None, _) => {
                let message =
                    "returns in the kernel are those of a function, which has to be named here";
                let name = source.place.symbol.as_deref();
                let name = name.ok_or_else(|| Diagnostic::error(span, message))?;
                (name.to_owned(), self.kernel_returns(program, name, span)?)
            }
        };
        let Some(returns) = returns else {
            let error = Diagnostic::error(span, format!("the code of {name} is not known"));
            return Err(match is_user {
                true => error,
                false => error.help("--sym names the file that has it: vmlinux, or the module"),
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

    /// Returns the returns of a function of the kernel or of a module, from the file of `--sym`.
    fn kernel_returns(&self, program: &Program, name: &str, span: Span) -> Result<Option<Returns>> {
        let Some((path, elf)) = self.kernel_symbols() else {
            return Ok(None);
        };
        self.check_running(program, path, elf, span)?;
        match elf.lookup(name) {
            Ok(function) => Ok(elf.returns(&function)),
            Err(LookupError::Ambiguous(all)) => {
                let message = format!("there are {} functions {name}", all.len());
                Err(Diagnostic::error(span, message).help("the kernel would take any of them"))
            }
            Err(_) => Ok(None),
        }
    }

    /// Refuses a file of another kernel or module than runs, as far as that tells.
    fn check_running(&self, program: &Program, path: &Path, elf: &Elf, span: Span) -> Result<()> {
        let name = &program.name;
        let module = (program.header.kind == ModuleKind::Module).then_some(name.as_str());
        let running = running_build_id(&self.options.root, module);
        match (running, elf.build_id()) {
            (Some(running), Some(own)) if running != own && !self.options.any_build => {
                let what = match module {
                    Some(module) => format!("the loaded {module}"),
                    None => "the running kernel".to_owned(),
                };
                let message = format!("{} is not what {what} is from", path.display());
                let error = Diagnostic::error(span, message);
                Err(error.help("their build IDs differ; --any-build takes it all the same"))
            }
            _ => Ok(()),
        }
    }

    /// An instruction, with the address of the symbol that it pushes.
    fn command(&self, command: &Command) -> Result<ferro_dprobes_core::Insn> {
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
        Ok(ferro_dprobes_core::Insn::push(address))
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
            return match self.symbols() {
                Some(file) if !file.has(name) => none(&program.name, file.names()),
                _ => Ok(None),
            };
        }
        if self.kernel.is_empty() {
            return match self.symbols() {
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
        if source.point.kind == PointKind::Breakpoint && !first.is_code() {
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
        let (path, elf) = match (self.kernel_symbols(), self.modules.get(name)) {
            (Some(found), _) => found,
            (_, Some(Ok((path, elf)))) => (&**path, elf),
            (_, found) => {
                let message = match found {
                    Some(Err(why)) => format!("this is a place in a file, and {why}"),
                    _ => "this is a place in a file, and the file is not known".to_owned(),
                };
                return Err(error(message)
                    .help("--sym names it: vmlinux, or the module; address = is for addresses"));
            }
        };
        self.check_running(program, path, elf, place.span)?;
        let file = path.display();
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

    /// Finds a place in an executable or a library, and the function that begins there.
    fn in_file(
        &self,
        program: &Program,
        source: &ProbePoint,
        located: &mut Located,
    ) -> Result<Option<Found>> {
        let place = &source.place;
        let error = |message: String| Diagnostic::error(place.span, message);
        let Some(binary) = self.files.get(Path::new(&program.name)) else {
            return Err(error(format!("{} is not open", program.name)));
        };
        let failed = |why: PlaceError| {
            let message = format!("{}: {why}", program.name);
            match &why {
                PlaceError::NoSymbol { near, .. } => match did_you_mean(near) {
                    Some(question) => error(message).help(question),
                    None => error(message),
                },
                PlaceError::NoCode(_) if place.symbol.is_some() => error(message)
                    .help("watch = w makes this a watchpoint, if the file has fixed addresses"),
                _ => error(message),
            }
        };
        if source.point.kind == PointKind::Breakpoint {
            let found = match &place.symbol {
                Some(name) => binary.place(name, place.number),
                None if source.point.is_absolute => {
                    let address = offset(place)?;
                    let outside = || PlaceError::NoCode(format!("{address:#x}"));
                    let offset = binary.elf().offset_of(address).ok_or_else(outside);
                    offset.and_then(|offset| binary.place_at(offset))
                }
                None => binary.place_at(offset(place)?),
            };
            let found = found.map_err(failed)?;
            located.point.is_absolute = false;
            located.point.offset = found.offset;
            return Ok(found.symbol);
        }
        located.point.is_absolute = true;
        located.point.offset = match &place.symbol {
            None if source.point.is_absolute => offset(place)?,
            None => return Err(error("a watchpoint needs an address: address =".to_owned())),
            Some(_) if !binary.elf().is_fixed() => {
                return Err(error(format!(
                    "{} has no fixed addresses, so that it is not known what to watch",
                    program.name
                ))
                .help("a program can watch an address that it finds; address = is for addresses"));
            }
            Some(name) => {
                let found = binary.symbol(name).map_err(failed)?;
                let number = i128::from(found.address).checked_add(place.number);
                let address = number.and_then(|number| u64::try_from(number).ok());
                let outside = || error(format!("this is outside of {}", program.name));
                address.ok_or_else(outside)?
            }
        };
        Ok(None)
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
