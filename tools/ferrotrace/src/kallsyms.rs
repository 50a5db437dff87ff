// SPDX-License-Identifier: GPL-2.0

//! The symbols of a kernel and its modules: of `/proc/kallsyms`, of a `System.map`, or of the part
//! that a recording keeps.
//!
//! `/proc/kallsyms` has no sizes: a function ends where the next symbol of any kind is, and at the
//! end of its module.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::io;
use std::ops::Range;
use std::path::Path;

use crate::file::read_regular;

/// The running kernel's list.
const PATH: &str = "/proc/kallsyms";

/// The most bytes of a list: those of kernels have some 20 million.
const MOST: u64 = 1 << 30;

/// Symbols at the end of the kernel's code, whatever kind the linker has given them.
const ENDS: [&str; 2] = ["_etext", "_einittext"];

/// The kind of a line that says where the code of a module ends at the latest; kallsyms has no such
/// kind.
const MODULE_END: char = 'e';

/// The most bytes that a function of a module is followed for if the end of the module is not
/// known: BPF programs, trampolines.
const REACH: u64 = 1 << 20;

/// Returns a name as its language has it: that of a Rust function as a path, without the hashes of
/// crates. Names of C stay as they are.
pub fn demangled(name: &str) -> Cow<'_, str> {
    // Most are of C.
    if !name.starts_with("_R") && !name.starts_with("_ZN") {
        return name.into();
    }
    match rustc_demangle::try_demangle(name) {
        Ok(path) => format!("{path:#}").into(),
        Err(_) => name.into(),
    }
}

/// A symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its address; 0 if the kernel does not tell.
    pub address: u64,
    kind: char,
    /// Its name, as the linker has it.
    pub name: &'a str,
    /// Its module.
    pub module: Option<&'a str>,
}

impl<'a> Symbol<'a> {
    /// Parses a line.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        Some(Self {
            address: u64::from_str_radix(words.next()?, 16).ok()?,
            kind: words.next()?.chars().next()?,
            name: words.next()?,
            module: words.next().map(|word| word.trim_matches(['[', ']'])),
        })
    }

    /// Returns true for code.
    pub fn is_code(&self) -> bool {
        matches!(self.kind, 't' | 'T' | 'w' | 'W') && !ENDS.contains(&self.name)
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// A list of symbols: of a hundred thousand, few are asked for.
#[derive(Clone, Debug, Default)]
pub struct Kallsyms {
    text: String,
    /// Addresses of functions, in order, and where their lines begin.
    functions: Vec<(u64, usize)>,
    /// Addresses of all other symbols, in order.
    ends: Vec<u64>,
    module_ends: BTreeMap<String, u64>,
    /// Where the code was that a kernel gives up when it has booted; it keeps the names.
    boot_code: Range<u64>,
    /// Hashes of all names, in order, and where their lines begin.
    names: OnceCell<Vec<(u64, usize)>>,
}

/// Returns all symbols of a list, with where their lines begin.
fn lines(text: &str) -> impl Iterator<Item = (Symbol<'_>, usize)> {
    let mut next = 0;
    let lines = text.split_inclusive('\n').map(move |line| {
        let at = next;
        next += line.len();
        Some((Symbol::parse(line)?, at))
    });
    lines.flatten()
}

impl Kallsyms {
    /// Reads a list: a `System.map`, or a file like it.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = String::from_utf8(read_regular(path, MOST)?);
        Ok(Self::parse(text.map_err(io::Error::other)?))
    }

    /// Reads the running kernel's, which has these modules.
    pub fn running(modules: &Modules) -> io::Result<Self> {
        let mut list = Self::read(Path::new(PATH))?;
        let ends = modules.ends().map(|(name, end)| (name.to_owned(), end));
        list.module_ends.extend(ends);
        Ok(list)
    }

    /// Parses the text of a list.
    pub fn parse(text: String) -> Self {
        let mut list = Self::default();
        for (symbol, at) in lines(&text) {
            match symbol.name {
                "_sinittext" => list.boot_code.start = symbol.address,
                "_einittext" => list.boot_code.end = symbol.address,
                _ => (),
            }
            match (symbol.is_code(), symbol.kind, symbol.module) {
                (true, ..) => list.functions.push((symbol.address, at)),
                (_, MODULE_END, Some(module)) => {
                    list.module_ends.insert(module.to_owned(), symbol.address);
                }
                _ => list.ends.push(symbol.address),
            }
        }
        let name = |at: usize| Symbol::parse(text.get(at..)?.lines().next()?).map(|one| one.name);
        list.functions
            .sort_by(|(a, at), (b, other)| a.cmp(b).then_with(|| name(*at).cmp(&name(*other))));
        list.ends.sort_unstable();
        list.text = text;
        list
    }

    /// Returns the symbol of the line that begins there.
    fn symbol(&self, at: usize) -> Option<Symbol<'_>> {
        Symbol::parse(self.text.get(at..)?.lines().next()?)
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.ends.is_empty()
    }

    /// Returns the function at an address, if there is one.
    pub fn at(&self, address: u64) -> Option<Symbol<'_>> {
        let next = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (_, at) = self.functions.get(next.checked_sub(1)?)?;
        let symbol = self.symbol(*at)?;
        let after = self.ends.partition_point(|end| *end <= symbol.address);
        let ends = self.ends.get(after).is_some_and(|end| *end <= address);
        let reach = symbol.module.map(|module| {
            let end = self.module_ends.get(module).copied();
            end.unwrap_or(symbol.address.saturating_add(REACH))
        });
        let is_within = symbol.address != 0 && !ends && reach.is_none_or(|end| address < end);
        is_within.then_some(symbol)
    }

    /// Returns the functions, by address, except those that a kernel gives up when it has booted.
    pub fn functions(&self) -> impl Iterator<Item = Symbol<'_>> {
        let functions = self.functions.iter();
        let there = functions.filter(|(address, _)| !self.boot_code.contains(address));
        there.filter_map(|(_, at)| self.symbol(*at))
    }

    /// Returns the functions with their code, by address. Functions of one address are one.
    pub fn code(&self) -> impl Iterator<Item = (Symbol<'_>, Range<u64>)> {
        let starts = self.functions.iter().map(|(start, _)| *start);
        let starts = Vec::from_iter(starts.collect::<BTreeSet<_>>());
        // Some kernels list data behind the code as code.
        let code_end = self.get(ENDS[0]).first().map(|symbol| symbol.address);
        let mut last = None;
        self.functions().filter_map(move |symbol| {
            let start = symbol.address;
            if symbol.module.is_none() && code_end.is_some_and(|end| start >= end) {
                return None;
            }
            let is_new = last.replace(start) != Some(start);
            let next = starts.partition_point(|other| *other <= start);
            let other = self.ends.partition_point(|end| *end <= start);
            let module_end = symbol.module.and_then(|name| self.module_ends.get(name));
            let ends = [starts.get(next), self.ends.get(other), module_end];
            let end = ends.into_iter().flatten().min()?;
            (is_new && start != 0 && start < *end).then_some((symbol, start..*end))
        })
    }

    /// Returns the symbols of a name, in the order of the list.
    pub fn get(&self, name: &str) -> Vec<Symbol<'_>> {
        let names = self.names.get_or_init(|| {
            let names = lines(&self.text).map(|(symbol, at)| (hash(symbol.name), at));
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            names
        });
        let hash = hash(name);
        let first = names.partition_point(|(other, _)| *other < hash);
        let same = names.iter().skip(first);
        let same = same.take_while(|(other, _)| *other == hash);
        let symbols = same.filter_map(|(_, at)| self.symbol(*at));
        symbols.filter(|symbol| symbol.name == name).collect()
    }

    /// Returns true if a module has symbols.
    pub fn has_module(&self, name: &str) -> bool {
        lines(&self.text).any(|(symbol, _)| symbol.module == Some(name))
    }

    /// Returns all names, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<_> = lines(&self.text).map(|(symbol, _)| symbol.name).collect();
        names.into_iter()
    }
}

/// The modules of a kernel, with the addresses where their code begins, and where it ends at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules(BTreeMap<String, (u64, u64)>);

impl Modules {
    /// Reads the running kernel's.
    pub fn running() -> Self {
        // A kernel without modules has no such file.
        Self::parse(&fs::read_to_string("/proc/modules").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let module = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let size: u64 = words.next()?.parse().ok()?;
            let address = words.nth(3)?.strip_prefix("0x")?;
            let address = u64::from_str_radix(address, 16).ok()?;
            Some((name, (address, address.checked_add(size)?)))
        };
        Self(text.lines().filter_map(module).collect())
    }

    /// Returns the address where the code of a module begins, if it is known.
    pub fn start(&self, module: &str) -> Option<u64> {
        let (start, _) = self.0.get(module)?;
        Some(*start).filter(|start| *start != 0)
    }

    /// Returns the ends; users who may not know addresses get zeros.
    fn ends(&self) -> impl Iterator<Item = (&str, u64)> {
        let known = self.0.iter().filter(|(_, (address, _))| *address != 0);
        known.map(|(name, (_, end))| (name.as_str(), *end))
    }
}

/// Reads the running kernel's functions, as lines of kallsyms, with those that say where they end.
pub fn running_functions() -> io::Result<String> {
    Ok(of_code(&fs::read_to_string(PATH)?, &Modules::running()))
}

fn of_code(kallsyms: &str, modules: &Modules) -> String {
    let lines = kallsyms.lines();
    let mut lines: Vec<_> = lines
        .filter_map(|line| Some((Symbol::parse(line)?, line)))
        .collect();
    lines.sort_by_key(|(symbol, _)| (symbol.address, !symbol.is_code()));
    let mut text = String::new();
    let mut follows = false;
    for (symbol, line) in lines {
        // Of what is not code, the first is the end of what is before it.
        if symbol.is_code() || follows {
            text.push_str(line);
            text.push('\n');
        }
        follows = symbol.is_code();
    }
    for (name, end) in modules.ends() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{end:016x} {MODULE_END} end\t[{name}]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000100 T first
ffffffff81000200 t last
ffffffff81000300 T _etext
ffffffff82000000 D some_data
ffffffffa0000000 t of_one\t[one]
ffffffffa0001000 d data_of_one\t[one]
ffffffffa0002000 t of_two\t[two]
ffffffffc0000000 t bpf_prog\t[bpf]
";

    #[test]
    fn functions_end() {
        let modules = Modules::parse(
            "one 8192 0 - Live 0xffffffffa0000000\ntwo 4096 1 one, Live 0xffffffffa0002000 (OE)\n",
        );
        let name = |text: &str, address: u64| {
            let list = Kallsyms::parse(text.to_owned());
            list.at(address).map(|symbol| symbol.name.to_owned())
        };
        for text in [KALLSYMS, &of_code(KALLSYMS, &modules)] {
            let name = |address| name(text, address);
            assert_eq!(name(0xffff_ffff_8100_01ff).unwrap(), "first");
            assert_eq!(name(0xffff_ffff_8100_02ff).unwrap(), "last");
            // Data behind the code, and nothing.
            assert_eq!(name(0xffff_ffff_8100_0300), None);
            assert_eq!(name(0xffff_ffff_8200_0008), None);
            assert_eq!(name(0xffff_ffff_a000_0fff).unwrap(), "of_one");
            assert_eq!(name(0xffff_ffff_a000_1000), None);
            assert_eq!(name(0xffff_ffff_c000_ffff).unwrap(), "bpf_prog");
            assert_eq!(name(0xffff_ffff_c010_0000), None);
            assert_eq!(name(0x10), None);
        }
        let text = of_code(KALLSYMS, &modules);
        assert!(
            !text.contains("some_data") && text.contains("_etext"),
            "{text}"
        );
        assert_eq!(name(&text, 0xffff_ffff_a000_2fff).unwrap(), "of_two");
        // A module that is loaded later may have functions there.
        assert_eq!(name(&text, 0xffff_ffff_a000_3000), None);
    }

    const LIST: &str = "\
ffffffff81000000 T one
0000000000000000 d data
not a line
ffffffff81000010 t twice
ffffffffc0000000 t twice\t[module]
ffffffffc0000010 W weak\t[module]
ffffffffc0000020 t another\t[other]";

    #[test]
    fn symbols_by_their_names() {
        let list = Kallsyms::parse(LIST.to_owned());
        let symbols = |name: &str| {
            let all = list.get(name).into_iter();
            let all = all.map(|one| (one.address, one.is_code(), one.module));
            all.collect::<Vec<_>>()
        };
        assert_eq!(symbols("one"), [(0xffff_ffff_8100_0000, true, None)]);
        assert_eq!(symbols("data"), [(0, false, None)]);
        assert_eq!(
            symbols("twice"),
            [
                (0xffff_ffff_8100_0010, true, None),
                (0xffff_ffff_c000_0000, true, Some("module"))
            ]
        );
        assert_eq!(
            symbols("weak"),
            [(0xffff_ffff_c000_0010, true, Some("module"))]
        );
        assert_eq!(
            symbols("another"),
            [(0xffff_ffff_c000_0020, true, Some("other"))]
        );
        assert!(symbols("on").is_empty() && symbols("a").is_empty());
    }

    #[test]
    fn code_of_functions() {
        let list = Kallsyms::parse(
            "ffffffff81000000 T one\nffffffff81000000 t alias\nffffffff81000010 t two\n\
             ffffffff81000018 d data\nffffffff81000020 T _etext\nffffffff81000020 t last\n\
             ffffffff81000030 t behind\n"
                .to_owned(),
        );
        let code: Vec<_> = list
            .code()
            .map(|(symbol, code)| (symbol.name, code.start & 0xff..code.end & 0xff))
            .collect();
        assert_eq!(code, [("alias", 0..0x10), ("two", 0x10..0x18)]);
    }

    #[test]
    fn names_are_there_once() {
        let list = Kallsyms::parse(LIST.to_owned());
        let names: Vec<_> = list.names().collect();
        assert_eq!(names, ["another", "data", "one", "twice", "weak"]);
        assert!(list.has_module("module") && list.has_module("other"));
        assert!(!list.has_module("modul") && !list.has_module("line"));
        assert!(!list.is_empty() && Kallsyms::parse("no list".to_owned()).is_empty());
    }

    #[test]
    fn names_of_rust() {
        for (name, path) in [
            ("vfs_read", "vfs_read"),
            ("_RNv_no", "_RNv_no"),
            (
                "_RNvMs_NtCs4fqI2P2rA04_12relay_engine8registryNtB4_8Registry3add",
                "<relay_engine::registry::Registry>::add",
            ),
            (
                "_RNvNtCs4fqI2P2rA04_12relay_engine8registry4find",
                "relay_engine::registry::find",
            ),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ] {
            assert_eq!(demangled(name), path);
        }
    }
}
