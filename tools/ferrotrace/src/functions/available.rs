// SPDX-License-Identifier: GPL-2.0

//! The functions that ftrace can trace, from `available_filter_functions_addrs` of tracefs, and
//! their selection by patterns.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::error::Error;
use super::error::Result;
use super::glob::Glob;
use crate::file::IoError;
use crate::kallsyms::demangled;
use crate::probes::symbols::Symbols;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, which others may have too.
    pub name: String,
    /// The module that it is in; `None` for the kernel.
    pub module: Option<String>,
}

/// Functions by the addresses at which ftrace traces them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions(BTreeMap<u64, Function>);

/// Where tracefs may be.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Bytes of a landing pad of indirect branches, which may be between the start of a function and
/// the place where it is traced.
const LANDING_PAD: u64 = 4;

/// Name that ftrace lists for functions that it has disabled.
const INVALID: &str = "__ftrace_invalid_address__";

impl Functions {
    /// Reads those of the running kernel.
    pub fn read() -> Result<Self> {
        let mut missing = None;
        for dir in TRACEFS {
            let path = Path::new(dir).join("available_filter_functions_addrs");
            match fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&text, &path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing.get_or_insert(path);
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Error::Denied(path));
                }
                Err(source) => {
                    return Err(Error::Io(IoError {
                        action: "read",
                        path,
                        source,
                    }));
                }
            }
        }
        Err(Error::NoTracefs(missing.unwrap_or_default()))
    }

    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut functions = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let (address, function) = parse_line(line).ok_or_else(|| Error::Parse {
                path: path.to_owned(),
                line: index + 1,
                text: line.to_owned(),
            })?;
            if !function.name.starts_with(INVALID) {
                functions.insert(address, function);
            }
        }
        Ok(Self(functions))
    }

    /// Returns those that match one of the patterns, in one module if one is named. Each pattern has
    /// to match one at least.
    pub fn select(
        &self,
        patterns: &[Glob],
        module: Option<&str>,
        symbols: &Symbols,
        is_loaded: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        if let Some(module) = module.filter(|module| !is_loaded(module)) {
            return Err(Error::NoSuchModule(module.to_owned()));
        }
        let mut selected = BTreeMap::new();
        for pattern in patterns {
            let mut found = false;
            for (address, function) in &self.0 {
                let is_there = module.is_none() || function.module.as_deref() == module;
                if is_there && pattern.matches(&function.name) {
                    found = true;
                    selected.insert(*address, function.clone());
                }
            }
            // The list has one name of each function, /proc/kallsyms all: that of a system call may
            // be another one.
            for (address, name) in symbols.matching(|name| pattern.matches(name)) {
                let Some((address, function)) = self.at(address) else {
                    continue;
                };
                let is_there = module.is_none() || function.module.as_deref() == module;
                if is_there {
                    found = true;
                    selected.entry(address).or_insert_with(|| Function {
                        name: name.into_owned(),
                        module: function.module.clone(),
                    });
                }
            }
            if !found {
                return Err(nothing(pattern, module, symbols));
            }
        }
        Ok(Self(selected))
    }

    /// Returns the function that begins at an address, with the address at which ftrace traces it.
    pub(crate) fn at(&self, start: u64) -> Option<(u64, &Function)> {
        let sites = [start, start.checked_add(LANDING_PAD)?];
        let found = |site| Some((site, self.0.get(&site)?));
        sites.into_iter().find_map(found)
    }

    /// The function at an address.
    pub fn get(&self, address: u64) -> Option<&Function> {
        self.0.get(&address)
    }

    /// All addresses.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.keys().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `ADDRESS NAME` or `ADDRESS NAME [MODULE]`.
fn parse_line(line: &str) -> Option<(u64, Function)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let name = words.next()?.to_owned();
    let module = match words.next() {
        Some(word) => Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned()),
        None => None,
    };
    // The kernel is told addresses.
    let name = demangled(&name).into_owned();
    Some((address, Function { name, module }))
}

/// Why a pattern matches nothing.
fn nothing(pattern: &Glob, module: Option<&str>, symbols: &Symbols) -> Error {
    if let Some(module) = module {
        return Error::NotInModule {
            pattern: pattern.to_string(),
            module: module.to_owned(),
        };
    }
    let names = symbols.matching(|name| pattern.matches(name));
    let mut names: Vec<String> = names.map(|(_, name)| name.into_owned()).collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        return Error::NotTraced {
            pattern: pattern.to_string(),
            names,
        };
    }
    let pattern = pattern.to_string();
    let plain: String = pattern.chars().filter(|c| !"*?[]!".contains(*c)).collect();
    Error::NoFunction {
        near: symbols.near(&plain),
        pattern,
    }
}

/// Returns true if a module is loaded, or built in with a directory of its own.
pub fn is_loaded(module: &str) -> bool {
    let mut path = PathBuf::from("/sys/module");
    path.push(module);
    !module.contains('/') && path.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
ffffffff81000010 vfs_read
ffffffff81000020 vfs_write
ffffffff81000030 do_exit
ffffffffa0000010 vfs_other [mod]
ffffffff81000040 __ftrace_invalid_address___64
ffffffff81000050 vfs_read
";

    /// As functions are called in the list, or elsewhere.
    #[test]
    fn other_names() {
        assert_eq!(select(&["__do_exit"], None).unwrap(), [0x30]);
        assert_eq!(select(&["landing"], None).unwrap(), [0x50]);
        // Once, and by the name in the list.
        assert_eq!(select(&["*do_exit"], None).unwrap(), [0x30]);
        let globs = ["*do_exit".parse().unwrap()];
        let symbols = Symbols::parse(KALLSYMS);
        let found = functions().select(&globs, None, &symbols, |_| true);
        let found = found.unwrap();
        assert_eq!(found.get(0xffff_ffff_8100_0030).unwrap().name, "do_exit");
    }

    const KALLSYMS: &str = "\
ffffffff81000010 T vfs_read
ffffffff81000030 T __do_exit
ffffffff8100004c T landing
ffffffff81000200 t notrace_one
ffffffff81000300 t notrace_two
ffffffff81000400 t _RNvNtCs4fqI2P2rA04_12relay_engine8registry4find
";

    fn functions() -> Functions {
        Functions::parse(LIST, Path::new("list")).unwrap()
    }

    fn select(patterns: &[&str], module: Option<&str>) -> Result<Vec<u64>> {
        let globs: Vec<Glob> = patterns.iter().map(|p| p.parse().unwrap()).collect();
        let symbols = Symbols::parse(KALLSYMS);
        let found = functions().select(&globs, module, &symbols, |name| name == "mod")?;
        Ok(found.addresses().map(|address| address & 0xfff).collect())
    }

    #[test]
    fn lists() {
        let functions = functions();
        assert_eq!(functions.len(), 5);
        assert!(!functions.is_empty());
        let other = functions.get(0xffff_ffff_a000_0010).unwrap();
        assert_eq!(
            (other.name.as_str(), other.module.as_deref()),
            ("vfs_other", Some("mod"))
        );
        assert_eq!(functions.get(0xffff_ffff_8100_0040), None);
        for line in ["x vfs_read", "ffffffff81000010", "10 a b", "10 a [b"] {
            assert!(matches!(
                Functions::parse(line, Path::new("list")),
                Err(Error::Parse { line: 1, .. })
            ));
        }
    }

    #[test]
    fn selections() {
        // Two functions have that name.
        assert_eq!(select(&["vfs_read"], None).unwrap(), [0x10, 0x50]);
        assert_eq!(select(&["vfs_w*", "do_exit"], None).unwrap(), [0x20, 0x30]);
        assert_eq!(select(&["vfs_*", "*"], None).unwrap().len(), 5);
        assert_eq!(select(&["vfs_*"], Some("mod")).unwrap(), [0x10]);
    }

    #[test]
    fn nothing_found() {
        let text = |patterns: &[&str], module| select(patterns, module).unwrap_err().to_string();
        assert_eq!(
            text(&["vfs_read", "vfs_raed"], None),
            "no function is called vfs_raed; did you mean vfs_read?"
        );
        assert!(text(&["nobody_*"], None).ends_with("(/proc/kallsyms has all)"));
        assert!(text(&["notrace_*"], None).contains("cannot trace notrace_one, notrace_two ("));
        for pattern in ["relay_engine::*", "_RNv*"] {
            let text = text(&[pattern], None);
            assert!(
                text.contains("cannot trace relay_engine::registry::find ("),
                "{text}"
            );
        }
        assert_eq!(text(&["*"], Some("none")), "no module none is loaded");
        assert_eq!(
            text(&["do_exit"], Some("mod")),
            "the module mod has no function do_exit that ftrace can trace"
        );
    }

    #[test]
    fn modules() {
        assert!(!is_loaded("no_such_module_here"));
        assert!(!is_loaded("../module"));
    }
}
