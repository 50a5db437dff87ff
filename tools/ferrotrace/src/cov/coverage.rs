// SPDX-License-Identifier: GPL-2.0

//! Which lines and functions were executed, and how often.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

/// How much of something was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// So many were.
    pub hit: usize,
    /// Of so many.
    pub total: usize,
}

impl Share {
    pub(super) fn of(executed: impl Iterator<Item = bool>) -> Self {
        let mut share = Self::default();
        for is_executed in executed {
            share.total += 1;
            share.hit += usize::from(is_executed);
        }
        share
    }

    /// Tenths of a percent, rounded down: only what was executed as a whole has 1000. Nothing has, too, if there was
    /// nothing to execute.
    pub fn permille(self) -> usize {
        let permille = self.hit.saturating_mul(1000).checked_div(self.total);
        permille.unwrap_or(1000)
    }

    /// Returns the number of items not executed.
    pub fn missed(self) -> usize {
        self.total.saturating_sub(self.hit)
    }

    /// Adds another share.
    pub(super) fn add(&mut self, other: Self) {
        self.hit += other.hit;
        self.total += other.total;
    }
}

/// Executions of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// How often it was called.
    pub calls: u64,
    /// Its basic blocks, if they are known.
    pub blocks: Option<Share>,
}

/// A source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// How often each line was executed.
    pub lines: BTreeMap<u32, u64>,
    /// How often each branch of a line was taken; `None` where the line was not reached.
    pub branches: BTreeMap<u32, Vec<Option<u64>>>,
    /// Its functions, by their names and the lines where they begin: a file may have several of one
    /// name, as of two branches of `#if`, or of static ones in files that it includes.
    pub functions: BTreeMap<(String, u32), Function>,
}

impl File {
    /// Adds executions of a line.
    pub fn line(&mut self, line: u32, count: u64) {
        let sum = self.lines.entry(line).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds what the branches of a line did, in the order in which the compiler has them.
    pub fn branches(&mut self, line: u32, taken: impl IntoIterator<Item = Option<u64>>) {
        let taken = taken.into_iter().enumerate();
        for (at, count) in taken {
            let sums = self.branches.entry(line).or_default();
            if sums.len() <= at {
                sums.resize(at + 1, None);
            }
            if let (Some(sum), Some(count)) = (sums.get_mut(at), count) {
                *sum = Some(sum.unwrap_or_default().saturating_add(count));
            }
        }
    }

    /// Adds a function that begins at a line, or what another object with it, such as one in a
    /// header, executed of it.
    pub fn function(&mut self, name: &str, line: u32, function: Function) {
        let sum = self.functions.entry((name.to_owned(), line)).or_default();
        sum.calls = sum.calls.saturating_add(function.calls);
        // The objects may have compiled it differently, and nothing says which of its blocks ran.
        sum.blocks = match (sum.blocks, function.blocks) {
            (Some(one), Some(other)) if other.permille() > one.permille() => Some(other),
            (one, other) => one.or(other),
        };
    }

    /// Counts the lines and functions that another run has executed, too, as not executed.
    fn leave_out(&mut self, other: &Self) {
        for (line, count) in &mut self.lines {
            if other.lines.get(line).is_some_and(|count| *count > 0) {
                *count = 0;
            }
        }
        for (key, function) in &mut self.functions {
            if other
                .functions
                .get(key)
                .is_some_and(|other| other.calls > 0)
            {
                function.calls = 0;
                function.blocks = None;
            }
        }
    }

    /// Adds another object's part.
    pub fn add(&mut self, other: Self) {
        for (line, count) in other.lines {
            self.line(line, count);
        }
        for (line, taken) in other.branches {
            self.branches(line, taken);
        }
        for ((name, line), function) in other.functions {
            self.function(&name, line, function);
        }
    }

    /// How many of its lines.
    pub fn line_share(&self) -> Share {
        Share::of(self.lines.values().map(|count| *count > 0))
    }

    /// How many of its branches.
    pub fn branch_share(&self) -> Share {
        let branches = self.branches.values().flatten();
        Share::of(branches.map(|taken| taken.is_some_and(|count| count > 0)))
    }

    /// How many of its functions.
    pub fn function_share(&self) -> Share {
        Share::of(self.functions.values().map(|function| function.calls > 0))
    }
}

/// Source files, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The files.
    pub files: BTreeMap<String, File>,
}

impl Coverage {
    /// Adds a file, or an object's part of it.
    pub fn add(&mut self, path: String, file: File) {
        match self.files.get_mut(&path) {
            Some(sum) => sum.add(file),
            None => {
                self.files.insert(path, file);
            }
        }
    }

    /// Counts the lines and functions that another run has executed, too, as not executed.
    pub fn leave_out(&mut self, other: &Self) {
        for (path, file) in &mut self.files {
            if let Some(other) = other.files.get(path) {
                file.leave_out(other);
            }
        }
    }

    /// The lines and the functions of all files.
    pub fn shares(&self) -> (Share, Share) {
        let (mut lines, mut functions) = (Share::default(), Share::default());
        for file in self.files.values() {
            lines.add(file.line_share());
            functions.add(file.function_share());
        }
        (lines, functions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let executed = [false, true, false, true].into_iter();
        assert_eq!(Share::of(executed), Share { hit: 2, total: 4 });
        let permille = |hit, total| Share { hit, total }.permille();
        assert_eq!(permille(1, 3), 333);
        assert_eq!(permille(2999, 3000), 999);
        assert_eq!(permille(3000, 3000), 1000);
        assert_eq!(permille(0, 0), 1000);
    }

    #[test]
    fn branches_of_parts() {
        let mut file = File::default();
        file.branches(3, [None, None]);
        file.branches(3, [Some(2), Some(0), Some(u64::MAX)]);
        file.branches(5, []);
        let mut other = File::default();
        other.branches(3, [None, Some(1), Some(1)]);
        file.add(other);
        assert_eq!(
            file.branches,
            [(3, vec![Some(2), Some(1), Some(u64::MAX)])].into()
        );
        assert_eq!(file.branch_share(), Share { hit: 3, total: 3 });
    }

    #[test]
    fn parts_of_a_header() {
        let function = |calls, hit| Function {
            calls,
            blocks: Some(Share { hit, total: 4 }),
        };
        let part = |lines: &[(u32, u64)], functions: &[(&str, u32, Function)]| {
            let mut file = File::default();
            for (line, count) in lines {
                file.line(*line, *count);
            }
            for (name, line, function) in functions {
                file.function(name, *line, *function);
            }
            file
        };
        let mut coverage = Coverage::default();
        coverage.add(
            "a.h".into(),
            part(
                &[(3, 0), (4, u64::MAX)],
                &[("f", 3, function(0, 0)), ("f", 7, function(0, 0))],
            ),
        );
        coverage.add(
            "a.h".into(),
            part(
                &[(4, 1), (5, 0), (5, 2)],
                &[("f", 3, function(2, 3)), ("g", 5, function(0, 0))],
            ),
        );
        coverage.add("b.c".into(), part(&[(1, 0)], &[]));
        let file = &coverage.files["a.h"];
        assert_eq!(file.lines, [(3, 0), (4, u64::MAX), (5, 2)].into());
        let function_at = |name: &str, line| file.functions[&(name.to_owned(), line)];
        assert_eq!(function_at("f", 3), function(2, 3));
        // One of the same name elsewhere in the file is another, and was not called.
        assert_eq!(function_at("f", 7), function(0, 0));
        let (lines, functions) = coverage.shares();
        assert_eq!(lines, Share { hit: 2, total: 4 });
        assert_eq!(functions, Share { hit: 1, total: 3 });
    }
}
