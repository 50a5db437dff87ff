// SPDX-License-Identifier: GPL-2.0

//! Source lines of executed blocks, by the debugging information of the kernel's image.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;

use super::super::coverage::Coverage;
use super::super::coverage::File;
use super::super::coverage::Function as Executed;
use super::super::coverage::Share;
use super::super::error::Error;
use super::super::error::Result;
use super::control::State;
use super::functions::Function;
use super::print::States;
use super::print::share;
use crate::kallsyms::demangled;
use crate::probes::types::DwarfTypes;

/// Number of executions of a block, as far as it is known.
fn count(state: State) -> Option<u64> {
    match state {
        State::Missed => Some(0),
        State::Hit => Some(1),
        State::Refused(_) => None,
    }
}

/// Image with debugging information that the running kernel was booted from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Distance by which the kernel was moved when it was booted.
    pub shift: u64,
}

/// Returns true if a source file is a file or below a directory, which may be named by the end of
/// its path.
fn is_below(file: &str, place: &str) -> bool {
    let place = place.trim_matches('/');
    !place.is_empty() && format!("/{file}/").contains(&format!("/{place}/"))
}

/// A line with code in a block. Its numbers are those of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub function: usize,
    pub file: usize,
    pub line: u32,
    pub block: usize,
}

impl Row {
    /// Returns the line with its function.
    pub fn line(&self) -> (usize, usize, u32) {
        (self.function, self.file, self.line)
    }
}

impl Source {
    /// Returns the source files, and the lines of functions in order.
    pub(super) fn rows(&self, functions: &[Function]) -> Result<(Vec<String>, Vec<Row>)> {
        let unfit = |source| Error::Types(self.path.clone(), source);
        let dwarf = DwarfTypes::of_program(&self.path, None).map_err(unfit)?;
        let mut blocks = Vec::new();
        for (at, function) in functions.iter().enumerate() {
            let own = function.blocks.iter().enumerate();
            blocks.extend(own.map(|(block, one)| (&one.range, at, block)));
        }
        blocks.sort_unstable_by_key(|(range, ..)| range.start);
        let mut files: HashMap<String, usize> = HashMap::new();
        let mut rows = Vec::new();
        let add = |address: u64, path: &str, line: u32| {
            let address = address.wrapping_add(self.shift);
            let next = blocks.partition_point(|(range, ..)| range.start <= address);
            let found = next.checked_sub(1).and_then(|at| blocks.get(at));
            let found = found.filter(|(range, ..)| range.contains(&address));
            if let Some((_, function, block)) = found.copied() {
                let count = files.len();
                let file = match files.get(path) {
                    Some(file) => *file,
                    None => *files.entry(path.to_owned()).or_insert(count),
                };
                rows.push(Row {
                    function,
                    file,
                    line,
                    block,
                });
            }
        };
        dwarf.rows(add).map_err(unfit)?;
        rows.sort_unstable();
        rows.dedup();
        let mut names: Vec<_> = files.into_iter().map(|(name, at)| (at, name)).collect();
        names.sort_unstable();
        Ok((names.into_iter().map(|(_, name)| name).collect(), rows))
    }

    /// Keeps the functions of these files and directories.
    ///
    /// Errors: the image has no functions of one of them.
    pub fn keep(&self, functions: &mut Vec<Function>, places: &[String]) -> Result<()> {
        let unfit = |source| Error::Types(self.path.clone(), source);
        let dwarf = DwarfTypes::of_program(&self.path, None).map_err(unfit)?;
        let start = |function: &Function| function.blocks.first().map(|block| block.range.start);
        let starts: HashSet<u64> = functions.iter().filter_map(start).collect();
        let mut chosen: HashSet<u64> = HashSet::new();
        let mut empty: HashSet<&String> = places.iter().collect();
        let choose = |address: u64, file: &str, _| {
            let address = address.wrapping_add(self.shift);
            if !starts.contains(&address) {
                return;
            }
            for place in places.iter().filter(|place| is_below(file, place)) {
                empty.remove(place);
                chosen.insert(address);
            }
        };
        dwarf.rows(choose).map_err(unfit)?;
        if let Some(place) = empty.into_iter().next() {
            return Err(Error::NoPath(place.clone()));
        }
        functions.retain(|function| start(function).is_some_and(|start| chosen.contains(&start)));
        Ok(())
    }

    /// Returns the lines and functions of blocks.
    ///
    /// A line is executed if one of the blocks with its code is. Lines of blocks that are not
    /// watched are left out.
    pub fn coverage(&self, states: &States<'_>) -> Result<Coverage> {
        let unfit = |source| Error::Types(self.path.clone(), source);
        let dwarf = DwarfTypes::of_program(&self.path, None).map_err(unfit)?;
        let mut blocks: Vec<(Range<u64>, State)> = Vec::new();
        let mut starts: HashMap<u64, (&str, Share)> = HashMap::new();
        for (function, states) in states {
            if let Some(first) = function.blocks.first() {
                starts.insert(first.range.start, (&function.name, share(states)));
            }
            let own = function.blocks.iter().zip(states);
            blocks.extend(own.map(|(block, state)| (block.range.clone(), *state)));
        }
        blocks.sort_unstable_by_key(|(range, _)| range.start);
        let mut coverage = Coverage::default();
        let add = |address: u64, path: &str, line: u32| {
            let address = address.wrapping_add(self.shift);
            let next = blocks.partition_point(|(range, _)| range.start <= address);
            let block = next.checked_sub(1).and_then(|at| blocks.get(at));
            let Some((_, state)) = block.filter(|(range, _)| range.contains(&address)) else {
                return;
            };
            let Some(count) = count(*state) else {
                return;
            };
            if !coverage.files.contains_key(path) {
                coverage.files.insert(path.to_owned(), File::default());
            }
            let Some(file) = coverage.files.get_mut(path) else {
                return;
            };
            file.line(line, count);
            // The first row of a function is that of its name.
            if let Some((name, share)) = starts.remove(&address) {
                let executed = Executed {
                    calls: u64::from(share.hit > 0),
                    blocks: Some(share),
                };
                file.function(&demangled(name), line, executed);
            }
        };
        dwarf.rows(add).map_err(unfit)?;
        Ok(coverage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_directories() {
        let file = "/build/linux/fs/ext4/inode.c";
        for place in [
            "fs/ext4",
            "/fs/ext4/",
            "fs/ext4/inode.c",
            "/build/linux/fs",
            "fs",
        ] {
            assert!(is_below(file, place), "{place}");
        }
        for place in ["", "/", "ext", "fs/ext", "inode", "s/ext4"] {
            assert!(!is_below(file, place), "{place}");
        }
    }
}
