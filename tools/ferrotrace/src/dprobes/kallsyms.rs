// SPDX-License-Identifier: GPL-2.0

//! All symbols of the running kernel and its modules, or those of a `System.map`.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::hash::DefaultHasher;
use std::hash::Hash;
use std::hash::Hasher;
use std::io;
use std::path::Path;

/// A symbol of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its address; 0 if the kernel does not tell.
    pub address: u64,
    /// True for code.
    pub is_code: bool,
    /// The module that it is in.
    pub module: Option<&'a str>,
    name: &'a str,
}

impl<'a> Symbol<'a> {
    /// That of a line, if it is one.
    fn of_line(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        let name = words.next()?;
        Some(Self {
            address,
            is_code: matches!(kind, "t" | "T" | "w" | "W"),
            module: words.next().map(|word| word.trim_matches(['[', ']'])),
            name,
        })
    }
}

/// A list of symbols, and where its lines are, by the hashes of the names: of a hundred thousand, some are asked for.
#[derive(Clone, Debug, Default)]
pub struct Kallsyms {
    text: String,
    lines: Vec<(u64, usize)>,
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl Kallsyms {
    /// Reads a list: `/proc/kallsyms`, or a file like it.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::parse(fs::read_to_string(path)?))
    }

    /// The symbols of a list.
    pub fn parse(text: String) -> Self {
        let mut lines = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if let Some(symbol) = Symbol::of_line(line) {
                lines.push((hash(symbol.name), at));
            }
            at += line.len();
        }
        lines.sort_unstable();
        Self { text, lines }
    }

    /// The symbol of the line there.
    fn at(&self, at: usize) -> Option<Symbol<'_>> {
        Symbol::of_line(self.text.get(at..)?.lines().next()?)
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Those of a name, in the order of the list.
    pub fn get(&self, name: &str) -> Vec<Symbol<'_>> {
        let hash = hash(name);
        let first = self.lines.partition_point(|(other, _)| *other < hash);
        let same = self.lines.iter().skip(first);
        let same = same.take_while(|(other, _)| *other == hash);
        let symbols = same.filter_map(|(_, at)| self.at(*at));
        symbols.filter(|symbol| symbol.name == name).collect()
    }

    /// Returns true if a module has symbols.
    pub fn has_module(&self, name: &str) -> bool {
        let mut all = self.text.lines().filter_map(Symbol::of_line);
        all.any(|symbol| symbol.module == Some(name))
    }

    /// All names, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.text.lines().filter_map(Symbol::of_line);
        let names: BTreeSet<_> = all.map(|symbol| symbol.name).collect();
        names.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
ffffffff81000000 T one
0000000000000000 d data
not a line
ffffffff81000010 t twice
ffffffffc0000000 t twice\t[module]
ffffffffc0000010 W weak\t[module]
ffffffffc0000020 t another\t[other]";

    fn symbols(list: &Kallsyms, name: &str) -> Vec<(u64, bool, Option<String>)> {
        let all = list.get(name).into_iter();
        let all = all.map(|one| (one.address, one.is_code, one.module.map(str::to_owned)));
        all.collect()
    }

    #[test]
    fn symbols_by_their_names() {
        let list = Kallsyms::parse(LIST.to_owned());
        let module = |name: &str| Some(name.to_owned());
        assert_eq!(symbols(&list, "one"), [(0xffff_ffff_8100_0000, true, None)]);
        assert_eq!(symbols(&list, "data"), [(0, false, None)]);
        assert_eq!(
            symbols(&list, "twice"),
            [
                (0xffff_ffff_8100_0010, true, None),
                (0xffff_ffff_c000_0000, true, module("module"))
            ]
        );
        assert_eq!(
            symbols(&list, "weak"),
            [(0xffff_ffff_c000_0010, true, module("module"))]
        );
        assert_eq!(
            symbols(&list, "another"),
            [(0xffff_ffff_c000_0020, true, module("other"))]
        );
        assert_eq!(symbols(&list, "on"), []);
        assert_eq!(symbols(&list, "a"), []);
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
}
