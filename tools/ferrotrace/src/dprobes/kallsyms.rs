// SPDX-License-Identifier: GPL-2.0

//! All symbols of the running kernel and its modules, or those of a `System.map`.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// What has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address; 0 if the kernel does not tell.
    pub address: u64,
    /// Whether it is code.
    pub is_code: bool,
    /// The module that it is in.
    pub module: Option<String>,
}

/// Symbols by name.
#[derive(Clone, Debug, Default)]
pub struct Kallsyms(BTreeMap<String, Vec<Symbol>>);

impl Kallsyms {
    /// Reads a list: `/proc/kallsyms`, or a file like it.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(path)?))
    }

    /// The symbols of a list.
    pub fn parse(text: &str) -> Self {
        let mut all: BTreeMap<String, Vec<Symbol>> = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let address = words
                .next()
                .and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(kind), Some(name)) = (address, words.next(), words.next())
            else {
                continue;
            };
            let module = words.next().map(|module| {
                let module = module.trim_matches(['[', ']']);
                module.to_owned()
            });
            all.entry(name.to_owned()).or_default().push(Symbol {
                address,
                is_code: matches!(kind, "t" | "T" | "w" | "W"),
                module,
            });
        }
        Self(all)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of a name.
    pub fn get(&self, name: &str) -> &[Symbol] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a module is there.
    pub fn has_module(&self, name: &str) -> bool {
        let mut all = self.0.values().flatten();
        all.any(|symbol| symbol.module.as_deref() == Some(name))
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
