// SPDX-License-Identifier: GPL-2.0

//! Compares the new lines of a patch with coverage.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;

use super::super::coverage::Coverage;
use super::super::coverage::File;
use super::super::coverage::Share;
use super::Changed;
use super::Commit;
use super::Line;
use super::Patch;
use super::beginning;
use super::is_source;
use super::matching::Found;
use crate::file::read_regular;
use crate::text::printable;

/// Bytes of the longest source file.
const SOURCE: u64 = 64 << 20;

/// Neighbouring lines that were not executed, and lines without code between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Number of the first line.
    pub first: u32,
    /// Their texts.
    pub texts: Vec<String>,
}

/// The lines of a commit in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the commit.
    pub commit: usize,
    /// The file.
    pub file: String,
    /// Its new lines with code.
    pub lines: Share,
    /// New lines that were not executed.
    pub missed: Vec<Missed>,
}

/// A new function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFunction {
    /// Its name; a macro may define several that begin at one line.
    pub names: Vec<String>,
    /// Index of the commit.
    pub commit: usize,
    /// The file.
    pub file: String,
    /// The first line.
    pub line: u32,
    /// True if a function of these names was called.
    pub is_executed: bool,
}

/// Which new lines and functions were executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The commits.
    pub commits: Vec<Commit>,
    /// New lines with code by commit, in the order of the commits, and by file.
    pub rows: Vec<Row>,
    /// New functions, in the same order.
    pub functions: Vec<NewFunction>,
    /// Source files of the patch that the coverage does not have.
    pub unknown: Vec<String>,
    /// Files that may be several ones, and so are left out.
    pub unclear: Vec<String>,
    /// Reasons to doubt the result.
    pub remarks: Vec<String>,
}

impl Judgement {
    /// Returns the share of all new lines with code.
    pub fn lines(&self) -> Share {
        let mut share = Share::default();
        for row in &self.rows {
            share.add(row.lines);
        }
        share
    }

    /// Returns the share of new functions.
    pub fn functions(&self) -> Share {
        Share {
            hit: self.functions.iter().filter(|one| one.is_executed).count(),
            total: self.functions.len(),
        }
    }

    /// Returns the new functions that were not executed.
    pub fn missed_functions(&self) -> impl Iterator<Item = &NewFunction> {
        self.functions.iter().filter(|one| !one.is_executed)
    }

    /// Adds a file that the coverage knows.
    fn add(&mut self, name: &str, path: &str, lines: &[Line], file: &File) {
        self.remarks.extend(other_text(path, lines));
        let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
        // The range that may go on, with lines without code that may belong to it.
        let mut open: Option<(usize, Missed, Vec<String>)> = None;
        for line in lines {
            rows.entry(line.commit).or_insert_with(|| Row {
                commit: line.commit,
                file: name.to_owned(),
                lines: Share::default(),
                missed: Vec::new(),
            });
            let executed = file.lines.get(&line.number).map(|count| *count > 0);
            let follows = open.as_mut().filter(|(commit, missed, between)| {
                let len = missed.texts.len() + between.len();
                let next = u32::try_from(len)
                    .ok()
                    .and_then(|len| missed.first.checked_add(len));
                *commit == line.commit && next == Some(line.number)
            });
            match (executed, follows) {
                (None, Some((_, _, between))) => between.push(line.text.clone()),
                (Some(false), Some((_, missed, between))) => {
                    missed.texts.append(between);
                    missed.texts.push(line.text.clone());
                }
                (Some(false), None) => {
                    let next = Missed {
                        first: line.number,
                        texts: vec![line.text.clone()],
                    };
                    let ended = open.replace((line.commit, next, Vec::new()));
                    close(ended, &mut rows);
                }
                _ => close(open.take(), &mut rows),
            }
            // The row is there since the beginning.
            if let (Some(executed), Some(row)) = (executed, rows.get_mut(&line.commit)) {
                row.lines.total += 1;
                row.lines.hit += usize::from(executed);
            }
        }
        close(open, &mut rows);
        self.rows
            .extend(rows.into_values().filter(|row| row.lines.total > 0));
        self.functions.extend(functions(name, lines, file));
    }
}

/// Adds a range to the row of its commit.
fn close(range: Option<(usize, Missed, Vec<String>)>, rows: &mut BTreeMap<usize, Row>) {
    if let Some((commit, missed, _)) = range {
        if let Some(row) = rows.get_mut(&commit) {
            row.missed.push(missed);
        }
    }
}

/// Returns the functions that begin at new lines.
fn functions(name: &str, lines: &[Line], file: &File) -> Vec<NewFunction> {
    let commits: BTreeMap<u32, usize> = lines.iter().map(|l| (l.number, l.commit)).collect();
    let mut found: BTreeMap<u32, NewFunction> = BTreeMap::new();
    for ((function, line), executions) in &file.functions {
        let Some(commit) = commits.get(line) else {
            continue;
        };
        let one = found.entry(*line).or_insert_with(|| NewFunction {
            names: Vec::new(),
            commit: *commit,
            file: name.to_owned(),
            line: *line,
            is_executed: false,
        });
        one.names.push(function.clone());
        one.is_executed |= executions.calls > 0;
    }
    found.into_values().collect()
}

/// Returns a remark if the file that was compiled has other text than the patch.
fn other_text(path: &str, lines: &[Line]) -> Option<String> {
    let path = Some(Path::new(path)).filter(|path| path.is_absolute())?;
    // The build may be on another machine.
    let bytes = read_regular(path, SOURCE).ok()?;
    let there: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let is_other = |line: &&Line| {
        let at = usize::try_from(line.number)
            .ok()
            .and_then(|number| number.checked_sub(1));
        let there = at.and_then(|at| there.get(at));
        there.is_none_or(|there| beginning(there) != line.text)
    };
    match lines.iter().filter(is_other).count() {
        0 => None,
        count => Some(format!(
            "{}: {count} of {} new lines have another text there: the coverage may be that of another version",
            printable(&path.to_string_lossy()),
            lines.len()
        )),
    }
}

/// Names of paths for a message.
fn some(paths: &[&str]) -> String {
    let first = paths.get(..3).unwrap_or(paths).join(", ");
    match paths.len().saturating_sub(3) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Compares a patch with coverage, in which its files are `found`.
pub fn judge(patch: Patch, found: &[Found<'_>], coverage: &Coverage) -> Judgement {
    let mut judgement = Judgement {
        commits: patch.commits,
        ..Judgement::default()
    };
    for (Changed { names, lines }, found) in patch.files.iter().zip(found) {
        let first = names.first().cloned().unwrap_or_default();
        match found {
            Found::Known { name, path } => {
                if let Some(file) = coverage.files.get(*path) {
                    judgement.add(name, path, lines, file);
                }
            }
            Found::Unknown if is_source(&first) => judgement.unknown.push(first),
            Found::Unknown => (),
            Found::Several(paths) => judgement.unclear.push(format!(
                "{first}: may be any of these files of the coverage: {}",
                some(paths)
            )),
            Found::Vague(path) => judgement.unclear.push(format!(
                "{first}: the coverage has only {path}, which may be another file as well"
            )),
        }
    }
    judgement.rows.sort_by_key(|row| row.commit);
    judgement.functions.sort_by_key(|function| function.commit);
    judgement
}

#[cfg(test)]
mod tests {
    use super::super::super::coverage::Function;
    use super::*;

    fn line(number: u32, commit: usize) -> Line {
        Line {
            number,
            text: format!("text {number}"),
            commit,
        }
    }

    fn judged(
        lines: Vec<Line>,
        counts: &[(u32, u64)],
        functions: &[(&str, u32, u64)],
    ) -> Judgement {
        let mut file = File::default();
        for (line, count) in counts {
            file.line(*line, *count);
        }
        for (name, line, calls) in functions {
            let blocks = None;
            let calls = *calls;
            file.function(name, *line, Function { calls, blocks });
        }
        let mut coverage = Coverage::default();
        coverage.add("b/a.c".to_owned(), file);
        let patch = Patch {
            commits: vec![Commit::default(); 3],
            files: vec![Changed {
                names: vec!["a.c".to_owned()],
                lines,
            }],
        };
        let found = Found::Known {
            name: "a.c".to_owned(),
            path: "b/a.c",
        };
        judge(patch, &[found], &coverage)
    }

    fn ranges(row: &Row) -> Vec<(u32, usize)> {
        row.missed
            .iter()
            .map(|one| (one.first, one.texts.len()))
            .collect()
    }

    #[test]
    fn lines_without_code_do_not_count() {
        let judged = judged(
            vec![line(1, 0), line(2, 0), line(3, 0)],
            &[(2, 7), (9, 0)],
            &[],
        );
        assert_eq!(judged.lines(), Share { hit: 1, total: 1 });
        assert_eq!(judged.rows.len(), 1);
        let nothing = super::tests::judged(vec![line(1, 0)], &[(2, 7)], &[]);
        assert!(nothing.rows.is_empty());
        assert_eq!(nothing.lines(), Share::default());
    }

    #[test]
    fn ranges_of_missed_lines() {
        // 1-3 with a line without code, 5 behind an executed one, 7 behind one that is old, and 9
        // and 10 of two commits.
        let numbers = [1, 2, 3, 4, 5, 7, 9];
        let mut lines: Vec<_> = numbers.into_iter().map(|number| line(number, 0)).collect();
        lines.push(line(10, 2));
        lines.push(line(11, 2));
        let counts = [(1, 0), (3, 0), (4, 1), (5, 0), (7, 0), (9, 0), (10, 0)];
        let judged = judged(lines, &counts, &[]);
        assert_eq!(ranges(&judged.rows[0]), [(1, 3), (5, 1), (7, 1), (9, 1)]);
        // A range ends with code.
        assert_eq!(ranges(&judged.rows[1]), [(10, 1)]);
        assert_eq!(
            judged.rows[0].missed[0].texts,
            ["text 1", "text 2", "text 3"]
        );
        assert_eq!(judged.rows[0].lines, Share { hit: 1, total: 6 });
        assert_eq!(judged.rows[1].commit, 2);
    }

    #[test]
    fn new_functions() {
        let functions = [
            ("old", 1, 0),
            ("new", 2, 0),
            ("__ia32_sys_x", 3, 0),
            ("__x64_sys_x", 3, 1),
        ];
        let judged = judged(vec![line(2, 1), line(3, 0)], &[(2, 0), (3, 1)], &functions);
        assert_eq!(judged.functions(), Share { hit: 1, total: 2 });
        let missed: Vec<_> = judged.missed_functions().collect();
        assert_eq!(missed[0].names, ["new"]);
        assert_eq!((missed[0].line, missed[0].commit), (2, 1));
        assert_eq!(judged.functions[0].names, ["__ia32_sys_x", "__x64_sys_x"]);
    }

    #[test]
    fn text_of_another_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.c");
        std::fs::write(&path, "text 1\ntext two\r\ntext 3").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(other_text(path, &[line(1, 0), line(3, 0)]), None);
        let remark = other_text(path, &[line(2, 0), line(3, 0), line(4, 0)]).unwrap();
        assert!(remark.contains("a.c: 2 of 3 new lines"), "{remark}");
        assert_eq!(other_text("/dev/zero", &[line(1, 0)]), None);
    }
}
