// SPDX-License-Identifier: GPL-2.0

//! Source text with the number of executions of each line.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use super::coverage::Coverage;

/// Lines that are shown around those with code.
const AROUND: u32 = 3;

/// Form of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// The source tree, if the kernel was compiled in another directory.
    pub tree: Option<&'a Path>,
    /// Counts are known; otherwise only that a line was executed.
    pub has_counts: bool,
    /// Files without an executed line are shown, too.
    pub all: bool,
}

/// Returns the place of a source file: the one in the tree that has the most of its path, or its own
/// path.
pub(super) fn place(path: &Path, tree: Option<&Path>) -> PathBuf {
    let own = path.strip_prefix("/").unwrap_or(path);
    let below = |tree: &Path| {
        let count = own.components().count();
        let ends = (0..count).map(|skip| own.components().skip(skip).collect::<PathBuf>());
        ends.map(|end| tree.join(end)).find(|path| path.is_file())
    };
    tree.and_then(below).unwrap_or_else(|| path.to_owned())
}

/// Returns the ranges of lines with code, with the lines around them.
fn ranges(lines: &BTreeMap<u32, u64>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for line in lines.keys() {
        let (from, to) = (
            line.saturating_sub(AROUND).max(1),
            line.saturating_add(AROUND),
        );
        match ranges.last_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to,
            _ => ranges.push((from, to)),
        }
    }
    ranges
}

impl Listing<'_> {
    /// Returns the number of executions, as gcov writes it.
    fn mark(&self, count: Option<u64>) -> String {
        match count {
            None => "-".to_owned(),
            Some(0) => "#####".to_owned(),
            Some(_) if !self.has_counts => "+".to_owned(),
            Some(count) => count.to_string(),
        }
    }

    /// Returns the text of all files. Those without their source have only the numbers.
    pub fn text(&self, coverage: &Coverage) -> String {
        let mut text = String::new();
        for (path, file) in &coverage.files {
            let share = file.line_share();
            if share.total == 0 || share.hit == 0 && !self.all {
                continue;
            }
            let place = place(Path::new(path), self.tree);
            let source = fs::read(&place).unwrap_or_default();
            let source = String::from_utf8_lossy(&source);
            let source: Vec<&str> = source.lines().collect();
            let missing = if source.is_empty() {
                " (its source is not there: --srcdir names the tree)"
            } else {
                ""
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{path}: {}/{} lines{missing}", share.hit, share.total);
            for (at, (from, to)) in ranges(&file.lines).into_iter().enumerate() {
                if at > 0 {
                    text.push_str("      ...\n");
                }
                for line in from..=to {
                    let words = usize::try_from(line - 1).ok().and_then(|at| source.get(at));
                    let count = file.lines.get(&line).copied();
                    if words.is_none() && count.is_none() {
                        continue;
                    }
                    let words = words.copied().unwrap_or_default();
                    let shown = format!("{:>9}:{line:>5}:{words}", self.mark(count));
                    let _ = writeln!(text, "{}", shown.trim_end());
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::coverage::File;
    use super::*;

    fn file(lines: &[(u32, u64)]) -> File {
        let mut file = File::default();
        for (line, count) in lines {
            file.line(*line, *count);
        }
        file
    }

    #[test]
    fn lines_and_what_is_around_them() {
        let dir = TempDir::new().unwrap();
        let source: String = (1..=30).map(|line| format!("line {line}\n")).collect();
        fs::create_dir(dir.path().join("fs")).unwrap();
        for name in ["fs/a.c", "fs/b.c"] {
            fs::write(dir.path().join(name), &source).unwrap();
        }
        let mut coverage = Coverage::default();
        coverage.add("/b/fs/a.c".into(), file(&[(2, 0), (4, 12), (29, 1)]));
        coverage.add("/b/fs/b.c".into(), file(&[(2, 0)]));
        coverage.add("/b/fs/gone.c".into(), file(&[(7, 1)]));
        let mut listing = Listing {
            tree: Some(dir.path()),
            has_counts: true,
            all: false,
        };
        let text = listing.text(&coverage);
        let expected = "\
/b/fs/a.c: 2/3 lines
        -:    1:line 1
    #####:    2:line 2
        -:    3:line 3
       12:    4:line 4
        -:    5:line 5
        -:    6:line 6
        -:    7:line 7
      ...
        -:   26:line 26
        -:   27:line 27
        -:   28:line 28
        1:   29:line 29
        -:   30:line 30
/b/fs/gone.c: 1/1 lines (its source is not there: --srcdir names the tree)
        1:    7:
";
        assert_eq!(text, expected);
        listing.has_counts = false;
        listing.all = true;
        let text = listing.text(&coverage);
        assert!(text.contains("        +:    4:line 4\n"), "{text}");
        assert!(text.contains("/b/fs/b.c: 0/1 lines\n"), "{text}");
    }

    #[test]
    fn the_last_line_of_all() {
        let lines = BTreeMap::from([(1, 0), (u32::MAX, 1)]);
        assert_eq!(
            ranges(&lines),
            [(1, 1 + AROUND), (u32::MAX - AROUND, u32::MAX)]
        );
    }
}
