// SPDX-License-Identifier: GPL-2.0

//! Functions of the running kernel with their blocks.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use super::super::error::Error;
use super::super::error::Result;
use super::blocks::Block;
use super::blocks::Code;
use super::text::Text;
use crate::file::IoError;
use crate::functions::glob::Glob;
use crate::kallsyms::Kallsyms;
use crate::kallsyms::Symbol;

/// Ending of the name of the part of a function that is seldom executed.
const COLD: &str = ".cold";

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its module; `None` for the kernel.
    pub module: Option<String>,
    /// Its blocks, in the order of their addresses.
    pub blocks: Vec<Block>,
}

/// Selection of functions.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Patterns of names; all functions if there are none.
    pub names: Vec<Glob>,
    /// Modules; the kernel, too, if there are none.
    pub modules: Vec<String>,
}

/// Functions that were found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Functions with their blocks.
    pub functions: Vec<Function>,
    /// Names of functions that are left out, since their bytes are not all instructions.
    pub undecoded: Vec<String>,
    /// Address where the kernel's code begins.
    pub text: Option<u64>,
    /// True if the functions are all functions of the kernel.
    pub is_whole: bool,
}

/// Returns the name of the function that a part of it belongs to.
pub(super) fn without_cold(name: &str) -> &str {
    name.strip_suffix(COLD).unwrap_or(name)
}

impl Selection {
    /// Returns true for a selected function.
    pub(super) fn has(&self, name: &str, module: Option<&str>) -> bool {
        let name = without_cold(name);
        let is_named = self.names.is_empty() || self.names.iter().any(|glob| glob.matches(name));
        let is_there = match module {
            None => self.modules.is_empty(),
            Some(module) => {
                self.modules.iter().any(|one| one == module)
                    || self.modules.is_empty() && !self.names.is_empty()
            }
        };
        is_named && is_there
    }

    /// Fails if a pattern or a module selects none of the functions, given by name and module.
    pub(super) fn check<'a>(
        &self,
        selected: impl Iterator<Item = (&'a str, Option<&'a str>)> + Clone,
    ) -> Result<()> {
        for glob in &self.names {
            if !selected.clone().any(|(name, _)| glob.matches(name)) {
                return Err(Error::NoFunction(glob.to_string()));
            }
        }
        for wanted in &self.modules {
            if !selected.clone().any(|(_, module)| module == Some(wanted)) {
                return Err(Error::NoModule(wanted.clone()));
            }
        }
        Ok(())
    }
}

/// Finds the functions of a selection, and their blocks.
///
/// Errors: the code cannot be read, or a pattern or a module matches no function.
pub fn find(kallsyms: &Kallsyms, text: &Text, selection: &Selection) -> Result<Found> {
    let selected: Vec<(Symbol<'_>, Range<u64>)> = kallsyms
        .code()
        .filter(|(symbol, _)| selection.has(symbol.name, symbol.module))
        .collect();
    selection.check(
        selected
            .iter()
            .map(|(symbol, _)| (symbol.name, symbol.module)),
    )?;
    let mut found = Found {
        text: kallsyms.get("_text").first().map(|start| start.address),
        is_whole: selection.names.is_empty() && selection.modules.is_empty(),
        ..Found::default()
    };
    let mut read = Vec::new();
    for (symbol, range) in selected {
        let bytes = text.read(&range).map_err(|source| {
            Error::Io(IoError {
                action: "read",
                path: Path::new("/proc/kcore").into(),
                source,
            })
        })?;
        match bytes {
            Some(bytes) => read.push((symbol, range.start, bytes)),
            None => found.undecoded.push(symbol.name.to_owned()),
        }
    }
    let mut decoded = Vec::new();
    for (symbol, address, bytes) in &read {
        match Code::decode(*address, bytes) {
            Some(code) => decoded.push((symbol, code)),
            None => found.undecoded.push(symbol.name.to_owned()),
        }
    }
    let targets: BTreeSet<u64> = decoded
        .iter()
        .flat_map(|(_, code)| code.targets())
        .collect();
    let functions = decoded.iter().map(|(symbol, code)| Function {
        name: symbol.name.to_owned(),
        module: symbol.module.map(str::to_owned),
        blocks: code.blocks(&targets),
    });
    // Symbols of gaps have none.
    let functions = functions.filter(|function| !function.blocks.is_empty());
    found.functions = functions.collect();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::text::Image;
    use super::*;

    const LIST: &str = "\
ffffffff81000000 T _text
ffffffff81001000 T one
ffffffff81001008 t one.cold
ffffffff81001010 t two
ffffffff81001018 t bad
ffffffff81001020 T _etext
ffffffffc0000000 t of_module\t[module]
ffffffffc0000010 d data\t[module]
";

    fn list() -> Kallsyms {
        Kallsyms::parse(LIST.to_owned())
    }

    fn found(names: &[&str], modules: &[&str]) -> Result<Found> {
        let mut code = vec![0x90; 0x20];
        // one: jmp to its second part, and the place to which that jumps back.
        code[..6].copy_from_slice(&[0xe9, 3, 0, 0, 0, 0xc3]);
        code[8..13].copy_from_slice(&[0xe9, 0xf8, 0xff, 0xff, 0xff]);
        code[0x10..0x13].copy_from_slice(&[0x31, 0xc0, 0xc3]);
        code[0x18] = 0x06;
        let text = Text::image(Image::of_code(0xffff_ffff_8100_1000, code));
        let names = names.iter().map(|name| name.parse().unwrap());
        let selection = Selection {
            names: names.collect(),
            modules: modules.iter().copied().map(str::to_owned).collect(),
        };
        find(&list(), &text, &selection)
    }

    #[test]
    fn functions_with_their_cold_parts() {
        let found = found(&["one"], &[]).unwrap();
        let blocks: Vec<_> = found
            .functions
            .iter()
            .map(|function| (function.name.as_str(), function.blocks.len()))
            .collect();
        // The jump back makes a block of the return.
        assert_eq!(blocks, [("one", 2), ("one.cold", 1)]);
        assert_eq!(found.undecoded.len(), 0);
    }

    #[test]
    fn code_that_cannot_be_read() {
        let found = found(&["t*", "b*"], &[]).unwrap();
        assert_eq!((found.functions.len(), found.undecoded.len()), (1, 1));
        assert_eq!(found.functions[0].name, "two");
        // The memory of the module is not there.
        let found = self::found(&[], &["module"]).unwrap();
        assert_eq!((found.functions.len(), found.undecoded.len()), (0, 1));
    }

    #[test]
    fn names_that_select_nothing() {
        for (names, modules) in [(&["one", "none"][..], &[][..]), (&[], &["none"])] {
            let error = found(names, modules).unwrap_err().to_string();
            assert!(error.contains("none"), "{error}");
        }
    }
}
