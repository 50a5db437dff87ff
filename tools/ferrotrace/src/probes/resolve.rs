// SPDX-License-Identifier: GPL-2.0

//! From what the user asks for to what the kernel is told: patterns to functions, names of
//! parameters and members to registers and offsets.

#![deny(unsafe_code)]

mod file;
mod value;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use ferro_kprobe_events_core::probe_args::AREA_MAX;
use ferro_kprobe_events_core::probe_args::ARGS_MAX;
use ferro_kprobe_events_core::probe_args::Args;
use ferro_kprobe_events_core::probe_args::CONDITIONS_MAX;
use ferro_kprobe_events_core::probe_args::Fetch;
use thiserror::Error;

use super::blacklist::Blacklist;
use super::condition::Condition;
use super::condition::ConditionSpec;
use super::model::Kind;
use super::model::Place;
use super::model::short_name;
use super::spec::ArgSpec;
use super::spec::Expression;
use super::spec::Spec;
use super::spec::Wish;
use super::symbols::Symbols;
use super::types::Error as TypesError;
use super::types::Named;
use super::types::Source;
use super::types::Types;
use crate::elf::Found;
use crate::functions::available::Functions;
use crate::functions::glob::Glob;
use crate::functions::glob::GlobError;
use crate::near::Names;
use crate::near::did_you_mean;
use value::Of;

/// Values that a condition can test, besides arguments.
const OF_A_HIT: [&str; 4] = ["pid", "cpu", "comm", "duration"];

/// A probe for the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// Kind of the probe.
    pub kind: Kind,
    /// Where it is.
    pub place: Place,
    /// If that is in a file: where in the file.
    pub at: Option<u64>,
    /// Arguments, and conditions of hits, in the kernel's syntax.
    pub args: String,
    /// A condition that only filters of tracefs can have, on arguments by their names.
    pub filter: Option<Condition>,
    /// True if a pattern matched this function: a refusal by the kernel is then no error.
    pub of_pattern: bool,
    /// The reason for which the kernel will refuse it; looked up for functions of patterns only.
    pub refused: Option<KnownRefusal>,
}

/// A reason to refuse a probe that the kernel shows before it is asked for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownRefusal {
    /// The function is in `kprobes/blacklist`.
    Blacklisted,
    /// ftrace cannot trace the function, so that probes of users may be within a tracer.
    Untraceable,
}

impl Wanted {
    /// Makes a probe at a place for tests.
    #[cfg(test)]
    pub(crate) fn of_place(name: &str, place: &str, kind: Kind, args: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            place: place.parse().unwrap(),
            at: None,
            args: args.to_owned(),
            filter: None,
            of_pattern: false,
            refused: None,
        }
    }

    /// Has hits of other processes and threads left out, in the kernel.
    pub fn only(&mut self, pid: i32) {
        let conditions = Args::parse(&self.args, self.kind == Kind::Return);
        let count = conditions.map_or(CONDITIONS_MAX, |args| args.conditions().count());
        if count < CONDITIONS_MAX {
            let word = if count == 0 { "if " } else { "" };
            // Writing to a string does not fail.
            let _ = write!(self.args, " {word}pid=={pid}");
        }
    }

    /// Returns true if the probe reads an argument of this name.
    pub fn has_arg(&self, name: &str) -> bool {
        let args = Args::parse(&self.args, self.kind == Kind::Return);
        args.is_some_and(|args| args.iter().any(|(other, _)| other == name))
    }

    /// Returns true if the probe reads a number of this name.
    pub fn has_number(&self, name: &str) -> bool {
        let args = Args::parse(&self.args, self.kind == Kind::Return);
        args.is_some_and(|args| args.value("", name).is_some())
    }

    /// Returns true if a condition tests the process ID.
    pub fn is_by_pid(&self) -> bool {
        let words = self.args.split_whitespace();
        words.skip_while(|word| *word != "if").any(|word| {
            let rest = word.strip_prefix("pid");
            rest.is_some_and(|rest| {
                !rest.starts_with(|char: char| char.is_alphanumeric() || char == '_')
            })
        })
    }
}

/// Why that cannot be.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// No function matches.
    #[error("no function matches {0} ({1} has all)")]
    NoMatch(String, String),
    /// No function has the path.
    #[error("no function is called {0}{1}")]
    NoFunction(String, String),
    /// The module.
    #[error("no module {0} is loaded")]
    NoModule(String),
    /// The file.
    #[error(transparent)]
    File(#[from] file::FileError),
    /// A process does not keep its parameters for the return of a function.
    #[error(
        "{0}: at the return of a function in a file there are no parameters, but $retval and registers"
    )]
    EntryInFile(String),
    /// The pattern.
    #[error("{pattern}: {what}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Error in the pattern.
        what: String,
    },
    /// Types are not known.
    #[error(transparent)]
    Types(#[from] TypesError),
    /// The function is not there.
    #[error(
        "{0}: the types of this function are not known; arguments can be given by their registers (%di, $arg1)"
    )]
    Unknown(String),
    /// Not a parameter.
    #[error("{symbol} has no parameter {name}; it has {others}")]
    NoParameter {
        /// The function.
        symbol: String,
        /// The name.
        name: String,
        /// Those that it has.
        others: Names,
    },
    /// Not a member.
    #[error("{of} has no member {name}; it has {others}")]
    NoMember {
        /// The structure.
        of: String,
        /// The name.
        name: String,
        /// Those that it has.
        others: Names,
    },
    /// A structure as a whole.
    #[error("{text} is a {of}; name one of its members: {others}")]
    Whole {
        /// The argument.
        text: String,
        /// The structure.
        of: String,
        /// Members of the type.
        others: Names,
    },
    /// Something that cannot be done with the type.
    #[error("{text}: {what}")]
    Misfit {
        /// The argument.
        text: String,
        /// Why.
        what: &'static str,
    },
    /// Not a line.
    #[error(
        "{} has no code in line {line} from its name{}",
        function_of(place),
        instead_of(place, near)
    )]
    NoLine {
        /// The function.
        place: Place,
        /// The line.
        line: u64,
        /// The nearest lines that have some.
        near: Vec<u64>,
    },
    /// Within a function.
    #[error(
        "{}: {name} is not in a register or in memory there any more, or DWARF does not say where; {}, and \
         registers (%di) can be used",
        place.shown(), with_dwarf(place)
    )]
    Within {
        /// The place.
        place: Place,
        /// The parameter.
        name: String,
    },
    /// Its place is not known.
    #[error("{symbol}: {name}: {why}; registers (%di) can be used")]
    Elsewhere {
        /// The function.
        symbol: String,
        /// The parameter, or `$retval`.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// Not a return.
    #[error("{0} is there when a function returns: FUNCTION%return, or -r")]
    NotReturned(&'static str),
    /// Too many, or two of a name.
    #[error("{0}: at most {ARGS_MAX} arguments with different names, of {AREA_MAX} bytes together")]
    TooMuch(String),
    /// A condition that does not fit.
    #[error(
        "{0}: there are at most {CONDITIONS_MAX} conditions; text is compared by ==, != and ~, numbers by all but ~"
    )]
    Condition(String),
}

type Result<T> = std::result::Result<T, ResolveError>;

/// Finds functions and types.
pub struct Resolver<'a> {
    symbols: &'a Symbols,
    source: &'a Source,
    /// Of the kernel, and of modules.
    opened: BTreeMap<Option<String>, Box<dyn Types>>,
    /// Functions that the kernel refuses; read for the first pattern.
    blacklist: OnceCell<Blacklist>,
    /// Functions that ftrace can trace; `None` if tracefs does not list them. Read for the first
    /// pattern.
    traceable: OnceCell<Option<Functions>>,
}

impl<'a> Resolver<'a> {
    /// Looks at nothing yet.
    pub fn new(symbols: &'a Symbols, source: &'a Source) -> Self {
        Self {
            symbols,
            source,
            opened: BTreeMap::new(),
            blacklist: OnceCell::new(),
            traceable: OnceCell::new(),
        }
    }

    /// The probes that `spec` stands for. `returns`: on returns, unless it says so itself.
    pub fn resolve(&mut self, spec: &Spec, returns: bool) -> Result<Vec<Wanted>> {
        let kind = spec.kind.unwrap_or(match returns {
            true => Kind::Return,
            false => Kind::Probe,
        });
        let symbol = &spec.place.symbol;
        let is_pattern = spec.place.is_pattern();
        let offset = spec.place.offset;
        let places: Vec<_> = match (spec.place.in_file(), is_pattern) {
            (Some((path, name)), _) => {
                let places = self.in_file(path, name, &spec.place)?.into_iter();
                places.map(|(name, at)| (name, Some(at), None)).collect()
            }
            (None, true) => {
                let names = self.matching(&spec.place)?.into_iter();
                names.map(|(name, refused)| (name, None, refused)).collect()
            }
            (None, false) => vec![(symbol.clone(), None, None)],
        };
        // The path of a function in Rust is a name, except that of several.
        let of_pattern = is_pattern && (places.len() > 1 || symbol.contains(['*', '?', '[']));
        let mut all = Vec::new();
        for (symbol, found, refused) in places {
            let first = Place { symbol, offset };
            let mut place = first.clone();
            let mut at = found.as_ref().map(|found| found.offset);
            let function = found.and_then(|found| found.function);
            let named = named(&first, function.as_ref());
            if let Some(line) = spec.line {
                let types = self.types(&place)?;
                let lines = types.lines(named)?;
                let before = lines.range(..line).next_back();
                let near = before.into_iter().chain(lines.range(line..).next());
                place.offset = *lines.get(&line).ok_or_else(|| ResolveError::NoLine {
                    place: place.clone(),
                    line,
                    near: near.map(|(line, _)| *line).collect(),
                })?;
                at = at.and_then(|at| at.checked_add(u64::from(place.offset)));
            }
            let default = place.default_name(kind);
            let name = match &spec.name {
                None => default,
                Some(name) if of_pattern => {
                    short_name(&format!("{name}.{default}"), super::model::NAME_MAX)
                }
                Some(name) => name.clone(),
            };
            let (args, filter) = self.args(spec, kind, &place, named)?;
            all.push(Wanted {
                name,
                kind,
                place,
                at,
                args,
                filter,
                of_pattern,
                // Of a name the kernel says it.
                refused: refused.filter(|_| of_pattern),
            });
        }
        Ok(all)
    }

    /// The functions of a file that `name` stands for, with their places in it.
    fn in_file(&self, path: &str, name: &str, place: &Place) -> Result<Vec<(String, file::At)>> {
        let code = file::Code::open(path)?;
        let names = match place.is_pattern() {
            true => {
                let glob = glob(name)?;
                let found = code.matching(|name| glob.matches(name));
                if found.is_empty() {
                    return Err(ResolveError::NoMatch(name.to_owned(), code.path()));
                }
                found
            }
            false => vec![name.to_owned()],
        };
        let places = names.into_iter().map(|name| {
            let at = code.place(&name, place.offset)?;
            Ok((format!("{}:{name}", code.path()), at))
        });
        places.collect()
    }

    /// Returns the functions of the kernel, or of the module of the place, that match a pattern,
    /// each with the reason for which the kernel will refuse it.
    fn matching(&self, place: &Place) -> Result<BTreeMap<String, Option<KnownRefusal>>> {
        let (module, pattern) = place.in_module();
        if let Some(module) = module.filter(|module| !self.symbols.has_module(module)) {
            return Err(ResolveError::NoModule(module.to_owned()));
        }
        let glob = glob(pattern)?;
        // Not what the compiler has split off, nor padding.
        let is_function = |name: &str| !name.contains('.') && !name.starts_with("__pfx_");
        let found = self.symbols.functions().filter(|symbol| {
            (module.is_none() || symbol.module == module)
                && is_function(symbol.name)
                && glob.matches(symbol.name)
        });
        let mut all: BTreeMap<String, Option<KnownRefusal>> = BTreeMap::new();
        for symbol in found {
            let refused = self.known_refusal(symbol.address);
            let name = match module {
                Some(module) => format!("{module}:{}", symbol.name),
                None => symbol.name.to_owned(),
            };
            // Of several functions with a name the kernel may take another.
            let of_name = all.entry(name).or_insert(refused);
            *of_name = of_name.and(refused);
        }
        match (all.is_empty(), glob.is_name()) {
            (true, true) => Err(ResolveError::NoFunction(
                pattern.to_owned(),
                did_you_mean(&self.symbols.near(pattern))
                    .map_or(String::new(), |text| format!("; {text}")),
            )),
            (true, false) => Err(ResolveError::NoMatch(
                place.symbol.clone(),
                "/proc/kallsyms".to_owned(),
            )),
            (false, _) => Ok(all),
        }
    }

    /// Returns the reason for which the kernel will refuse a probe on the function that begins at
    /// an address.
    fn known_refusal(&self, address: u64) -> Option<KnownRefusal> {
        if self
            .blacklist
            .get_or_init(Blacklist::read)
            .contains(address)
        {
            return Some(KnownRefusal::Blacklisted);
        }
        let listed = || Functions::read().ok().filter(|list| !list.is_empty());
        let traceable = self.traceable.get_or_init(listed).as_ref()?;
        traceable
            .at(address)
            .is_none()
            .then_some(KnownRefusal::Untraceable)
    }

    /// The kernel's words for what a probe at `place` reads, and a condition that they cannot have.
    fn args(
        &mut self,
        spec: &Spec,
        kind: Kind,
        place: &Place,
        named: Named<'_>,
    ) -> Result<(String, Option<Condition>)> {
        if spec.args.is_empty() && spec.conditions.is_empty() && spec.filter.is_none() {
            return Ok((String::new(), None));
        }
        // Conditions may be on something that is not an argument yet.
        let mut args = spec.args.clone();
        let mut conditions = Vec::new();
        for condition in &spec.conditions {
            let left = left(condition, &mut args)?;
            conditions.push(format!("{left}{}", condition.rest));
        }
        let filter = spec.filter.as_ref().map(|filter| {
            filter.map(&mut |test: &ConditionSpec| {
                let left = left(test, &mut args)?;
                let rest = test.rest.clone();
                Ok::<_, ResolveError>(ConditionSpec { left, rest })
            })
        });
        let filter = filter.transpose()?;
        let mut text = String::new();
        for (index, arg) in args.iter().enumerate() {
            let value = self.arg(arg, kind, place, named)?;
            // Writing to a string does not fail.
            let _ = write!(text, "{}={value} ", arg.name_at(index));
        }
        let returns = kind == Kind::Return;
        if Args::parse(&text, returns).is_none() {
            return Err(ResolveError::TooMuch(text.trim_end().to_owned()));
        }
        if conditions.is_empty() {
            return Ok((text.trim_end().to_owned(), filter));
        }
        if !returns && conditions.iter().any(|text| text.starts_with("duration")) {
            return Err(ResolveError::NotReturned("duration"));
        }
        let line = format!("{text}if {}", conditions.join(" "));
        match Args::parse(&line, returns) {
            Some(_) => Ok((line, filter)),
            None => Err(ResolveError::Condition(conditions.join(" && "))),
        }
    }

    /// The kernel's words for an argument, without its name.
    fn arg(
        &mut self,
        arg: &ArgSpec,
        kind: Kind,
        place: &Place,
        named: Named<'_>,
    ) -> Result<String> {
        let misfit = |what| ResolveError::Misfit {
            text: arg.text.clone(),
            what,
        };
        let (start, steps) = match &arg.expression {
            Expression::Raw(fetch) => {
                let parsed = Fetch::parse(fetch);
                let parsed = parsed.ok_or(misfit(
                    "not a register, $argN, $stackN, $retval or +OFFSET(...)",
                ))?;
                if parsed.is_of_return() && kind != Kind::Return {
                    return Err(ResolveError::NotReturned("$retval"));
                }
                let of_entry = parsed.is_of_entry() && kind == Kind::Return;
                if of_entry && place.in_file().is_some() {
                    return Err(ResolveError::EntryInFile(arg.text.clone()));
                }
                if parsed.stack().is_some() {
                    return match arg.wish {
                        Wish::None => Ok(fetch.clone()),
                        _ => Err(misfit("a stack has no type")),
                    };
                }
                if matches!(arg.wish, Wish::Text(_)) && !parsed.is_in_memory() {
                    return Err(misfit("text is in memory: +0(...)"));
                }
                return Ok(match &arg.wish {
                    Wish::None => fetch.clone(),
                    Wish::Number(kind) => format!("{fetch}:{kind}64"),
                    Wish::Text(len) => format!("{fetch}:string{len}"),
                    Wish::Exact(ty) => format!("{fetch}:{ty}"),
                });
            }
            Expression::Named { start, steps } => (start, steps),
        };
        let is_returned = start == "$retval";
        if is_returned && kind != Kind::Return {
            return Err(ResolveError::NotReturned("$retval"));
        }
        if let (true, [], Wish::Exact(ty)) = (is_returned, &steps[..], &arg.wish) {
            return Ok(format!("$retval:{ty}"));
        }
        if !is_returned && kind == Kind::Return && place.in_file().is_some() {
            return Err(ResolveError::EntryInFile(arg.text.clone()));
        }
        let types = self.types(place)?;
        let unknown = || ResolveError::Unknown(named.name.to_owned());
        let function = types.function(named)?.ok_or_else(unknown)?;
        let of = Of {
            types,
            function: &function,
            named,
            kind,
        };
        let mut value = match is_returned {
            true => {
                let value = of.returned()?;
                value.ok_or(misfit("the function returns nothing"))?
            }
            false if place.offset == 0 => of.at_entry(start)?,
            false => {
                let value = of.within(start, place.offset)?;
                value.ok_or_else(|| ResolveError::Within {
                    place: place.clone(),
                    name: start.clone(),
                })?
            }
        };
        for step in steps {
            value = value.step(types, step, &arg.text)?;
        }
        value.finish(types, &arg.wish, &arg.text)
    }

    fn types(&mut self, place: &Place) -> Result<&dyn Types> {
        // A module, or a file.
        let module = match place.symbol.rsplit_once(':') {
            Some((module, _)) => Some(module.to_owned()),
            None => self.symbols.module_of(&place.symbol).map(str::to_owned),
        };
        let types = match (self.opened.remove(&module), place.in_file()) {
            (Some(types), _) => types,
            (None, Some((path, _))) => Box::new(file::types(path)?),
            (None, None) => self.source.open(module.as_deref())?,
        };
        Ok(&**self.opened.entry(module).or_insert(types))
    }
}

/// The name of what a condition tests: that of an argument, which is added if there is none yet.
fn left(condition: &ConditionSpec, args: &mut Vec<ArgSpec>) -> Result<String> {
    let names = args.iter().enumerate();
    let mut known = names.map(|(index, arg)| (arg.name_at(index), &arg.text));
    let found = known.find(|(name, text)| *name == condition.left || **text == condition.left);
    if let Some((name, _)) = found {
        return Ok(name);
    }
    if OF_A_HIT.contains(&condition.left.as_str()) {
        return Ok(condition.left.clone());
    }
    let arg: ArgSpec = condition
        .left
        .parse()
        .map_err(|_| ResolveError::Condition(condition.left.clone()))?;
    let name = arg.name_at(args.len());
    args.push(arg);
    Ok(name)
}

fn glob(pattern: &str) -> Result<Glob> {
    pattern
        .parse()
        .map_err(|what: GlobError| ResolveError::Pattern {
            pattern: pattern.to_owned(),
            what: what.to_string(),
        })
}

/// Returns advice on DWARF for a place.
fn with_dwarf(place: &Place) -> &'static str {
    match place.in_file() {
        Some(_) => "a program that is built with -g has it",
        None => "--vmlinux FILE names a kernel or a module with it",
    }
}

/// Returns the nearest lines with code, for a message about a line without code.
fn instead_of(place: &Place, near: &[u64]) -> String {
    match near {
        [] => format!(", or DWARF does not say where; {}", with_dwarf(place)),
        [line] => format!("; line {line} has"),
        lines => {
            let lines: Vec<_> = lines.iter().map(u64::to_string).collect();
            format!("; lines {} have", lines.join(" and "))
        }
    }
}

/// The function, without its module or its file.
fn function_of(place: &Place) -> &str {
    place.symbol.rsplit(':').next().unwrap_or_default()
}

/// The function to look up types for: in a file the one that was found.
fn named<'a>(place: &'a Place, found: Option<&'a Found>) -> Named<'a> {
    match found {
        Some(found) => Named {
            name: &found.name,
            start: Some(found.address),
        },
        None => Named {
            name: function_of(place),
            start: None,
        },
    }
}

#[cfg(test)]
mod tests;
