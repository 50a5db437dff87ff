// SPDX-License-Identifier: GPL-2.0

//! Source lines of executed blocks, by the debugging information of the kernel's image.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::collections::HashSet;
use std::path::PathBuf;

use super::super::coverage::Coverage;
use super::super::coverage::File;
use super::super::coverage::Function as Executed;
use super::super::error::Error;
use super::super::error::Result;
use super::control::State;
use super::functions::Function;
use super::functions::without_cold;
use super::print::States;
use super::print::share;
use crate::kallsyms::demangled;
use crate::probes::types::DwarfTypes;

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

/// A source line with code in a block. All fields except `line` are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub file: usize,
    pub line: u32,
    pub function: usize,
    pub block: usize,
}

/// Lines of functions.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Source files.
    pub files: Vec<String>,
    /// Lines, in order.
    pub rows: Vec<Row>,
    /// Functions, with the file and the line where each begins.
    starts: Vec<(usize, usize, u32)>,
}

impl Rows {
    /// Returns the functions, with the source file where each begins.
    pub fn files_of_functions(&self) -> impl Iterator<Item = (usize, &str)> {
        let starts = self.starts.iter();
        starts.filter_map(|(function, file, _)| Some((*function, &**self.files.get(*file)?)))
    }

    /// Returns the lines with a watched block, each with true if one of its blocks was executed.
    /// Consecutive rows with the same key are one line.
    pub fn hits<K: PartialEq>(
        &self,
        state: impl Fn(&Row) -> Option<State>,
        key: impl Fn(&Row) -> K,
    ) -> impl Iterator<Item = (&Row, bool)> {
        let lines = self.rows.chunk_by(move |one, other| key(one) == key(other));
        lines.filter_map(move |rows| {
            let state = rows.iter().filter_map(&state).reduce(State::with)?;
            Some((rows.first()?, state.is_hit()?))
        })
    }
}

impl Source {
    /// Returns the lines of functions.
    pub(super) fn rows<'a>(&self, functions: impl Iterator<Item = &'a Function>) -> Result<Rows> {
        let unfit = |source| Error::Types(self.path.clone(), source);
        let dwarf = DwarfTypes::of_program(&self.path, None).map_err(unfit)?;
        let mut blocks = Vec::new();
        for (at, function) in functions.enumerate() {
            let own = function.blocks.iter().enumerate();
            blocks.extend(own.map(|(block, one)| (&one.range, at, block)));
        }
        blocks.sort_unstable_by_key(|(range, ..)| range.start);
        let mut files: HashMap<String, usize> = HashMap::new();
        let mut all = Rows::default();
        let mut begun = HashSet::new();
        let add = |address: u64, path: &str, line: u32, is_statement: bool| {
            if !is_statement {
                return;
            }
            let address = address.wrapping_add(self.shift);
            let next = blocks.partition_point(|(range, ..)| range.start <= address);
            let found = next.checked_sub(1).and_then(|at| blocks.get(at));
            let found = found.filter(|(range, ..)| range.contains(&address));
            let Some((range, function, block)) = found.copied() else {
                return;
            };
            let count = files.len();
            let file = match files.get(path) {
                Some(file) => *file,
                None => *files.entry(path.to_owned()).or_insert(count),
            };
            all.rows.push(Row {
                file,
                line,
                function,
                block,
            });
            // The first row of a function is that of its name.
            if block == 0 && address == range.start && begun.insert(function) {
                all.starts.push((function, file, line));
            }
        };
        dwarf.rows(add).map_err(unfit)?;
        all.rows.sort_unstable();
        all.rows.dedup();
        let mut names: Vec<_> = files.into_iter().map(|(name, at)| (at, name)).collect();
        names.sort_unstable();
        all.files = names.into_iter().map(|(_, name)| name).collect();
        Ok(all)
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
        let choose = |address: u64, file: &str, _, _| {
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
        let all = self.rows(states.iter().map(|(function, _)| *function))?;
        let mut files = vec![File::default(); all.files.len()];
        let state = |row: &Row| states.get(row.function)?.1.get(row.block).copied();
        for (row, is_hit) in all.hits(state, |row| (row.file, row.line)) {
            if let Some(file) = files.get_mut(row.file) {
                file.line(row.line, is_hit.into());
            }
        }
        for (function, file, line) in all.starts {
            let Some(((function, states), file)) = states.get(function).zip(files.get_mut(file))
            else {
                continue;
            };
            let share = share(states);
            let executed = Executed {
                calls: u64::from(share.hit > 0),
                blocks: Some(share),
            };
            // A cold part begins at a line within its function.
            let is_whole = without_cold(&function.name) == function.name;
            if share.total > 0 && is_whole {
                file.function(&demangled(&function.name), line, executed);
            }
        }
        let mut coverage = Coverage::default();
        for (path, file) in all.files.into_iter().zip(files) {
            if !file.lines.is_empty() {
                coverage.add(path, file);
            }
        }
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
