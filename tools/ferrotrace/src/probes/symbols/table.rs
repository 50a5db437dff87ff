// SPDX-License-Identifier: GPL-2.0

//! The kernel's functions by address, and where they end.
//!
//! `/proc/kallsyms` has no sizes: a function ends where the next symbol of any kind is, and at the
//! end of its module.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::ops::Range;

/// Symbols at the end of the kernel's code, whatever kind the linker has given them.
const ENDS: [&str; 2] = ["_etext", "_einittext"];

/// The kind of a line that says where the code of a module ends at the latest; kallsyms has no such
/// kind.
const MODULE_END: char = 'e';

/// The most bytes that a function of a module is followed for if the end of the module is not
/// known: BPF programs, trampolines.
const REACH: u64 = 1 << 20;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    pub(super) address: u64,
    pub(super) name: String,
    pub(super) module: Option<String>,
}

/// A line of kallsyms.
#[derive(Clone, Copy)]
struct Line<'a> {
    address: u64,
    kind: char,
    name: &'a str,
    module: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        Some(Self {
            address: u64::from_str_radix(words.next()?, 16).ok()?,
            kind: words.next()?.chars().next()?,
            name: words.next()?,
            module: words.next().map(|word| word.trim_matches(['[', ']'])),
        })
    }

    fn is_code(&self) -> bool {
        matches!(self.kind, 't' | 'T' | 'w' | 'W') && !ENDS.contains(&self.name)
    }
}

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) functions: Vec<Symbol>,
    /// Addresses of all other symbols, in order.
    ends: Vec<u64>,
    module_ends: BTreeMap<String, u64>,
    /// Where the code was that a kernel gives up when it has booted; it keeps the names.
    pub(super) boot_code: Range<u64>,
}

impl Table {
    pub(super) fn parse(text: &str) -> Self {
        let mut table = Self::default();
        for line in text.lines().filter_map(Line::parse) {
            match line.name {
                "_sinittext" => table.boot_code.start = line.address,
                "_einittext" => table.boot_code.end = line.address,
                _ => (),
            }
            match (line.is_code(), line.kind, line.module) {
                (true, ..) => table.functions.push(Symbol {
                    address: line.address,
                    name: line.name.to_owned(),
                    module: line.module.map(str::to_owned),
                }),
                (_, MODULE_END, Some(module)) => {
                    table.module_ends.insert(module.to_owned(), line.address);
                }
                _ => table.ends.push(line.address),
            }
        }
        table.functions.sort();
        table.ends.sort_unstable();
        table
    }

    /// Reads the running kernel's, which has these modules.
    pub(super) fn running(modules: &BTreeMap<String, (u64, u64)>) -> io::Result<Self> {
        let mut table = Self::parse(&fs::read_to_string("/proc/kallsyms")?);
        let ends = known_ends(modules).map(|(name, end)| (name.to_owned(), end));
        table.module_ends.extend(ends);
        Ok(table)
    }

    /// Returns the function at an address, if there is one.
    pub(super) fn at(&self, address: u64) -> Option<&Symbol> {
        let next = self
            .functions
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.functions.get(next.checked_sub(1)?)?;
        let after = self.ends.partition_point(|end| *end <= symbol.address);
        let ends = self.ends.get(after).is_some_and(|end| *end <= address);
        let reach = symbol.module.as_ref().map(|module| {
            let end = self.module_ends.get(module).copied();
            end.unwrap_or(symbol.address.saturating_add(REACH))
        });
        let is_within = symbol.address != 0 && !ends && reach.is_none_or(|end| address < end);
        is_within.then_some(symbol)
    }
}

/// The running kernel's modules and where their code is at most, as `/proc/modules` has it.
pub(super) fn modules() -> BTreeMap<String, (u64, u64)> {
    // A kernel without modules has no such file.
    parse_modules(&fs::read_to_string("/proc/modules").unwrap_or_default())
}

fn parse_modules(text: &str) -> BTreeMap<String, (u64, u64)> {
    let module = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let size: u64 = words.next()?.parse().ok()?;
        let address = words.nth(3)?.strip_prefix("0x")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some((name, (address, address.checked_add(size)?)))
    };
    text.lines().filter_map(module).collect()
}

/// The ends of modules; who may not know addresses gets zeros.
fn known_ends(modules: &BTreeMap<String, (u64, u64)>) -> impl Iterator<Item = (&str, u64)> {
    let known = modules.iter().filter(|(_, (address, _))| *address != 0);
    known.map(|(name, (_, end))| (name.as_str(), *end))
}

/// Reads the running kernel's functions, as lines of kallsyms, with those that say where they end.
pub(crate) fn running() -> io::Result<String> {
    Ok(of_code(&fs::read_to_string("/proc/kallsyms")?, &modules()))
}

fn of_code(kallsyms: &str, modules: &BTreeMap<String, (u64, u64)>) -> String {
    let lines = kallsyms.lines();
    let mut lines: Vec<_> = lines
        .filter_map(|line| Some((Line::parse(line)?, line)))
        .collect();
    lines.sort_by_key(|(line, _)| (line.address, !line.is_code()));
    let mut text = String::new();
    let mut follows = false;
    for (parsed, line) in lines {
        // Of what is not code, the first is the end of what is before it.
        if parsed.is_code() || follows {
            text.push_str(line);
            text.push('\n');
        }
        follows = parsed.is_code();
    }
    for (name, end) in known_ends(modules) {
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
        let modules = parse_modules(
            "one 8192 0 - Live 0xffffffffa0000000\ntwo 4096 1 one, Live 0xffffffffa0002000 (OE)\n",
        );
        let name = |text: &str, address: u64| {
            let table = Table::parse(text);
            table.at(address).map(|symbol| symbol.name.clone())
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
}
