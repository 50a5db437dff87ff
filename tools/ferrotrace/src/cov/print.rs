// SPDX-License-Identifier: GPL-2.0

//! Coverage for people, as a table with the worst first, and as JSON.

#![deny(unsafe_code)]

use std::cmp::Reverse;
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use super::coverage::Coverage;
use super::coverage::File;
use super::coverage::Function;
use super::coverage::Share;
use super::listing::Listing;
use super::listing::place;
use super::paths::main_root;
use super::tracefile;

/// How coverage is shown.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Style {
    /// Functions, not files.
    pub functions: bool,
    /// At most so many rows.
    pub top: Option<usize>,
    /// Only what was executed, the most first: for a difference.
    pub executed: bool,
}

/// Form of a report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Form {
    /// The table.
    pub style: Style,
    /// One JSON document.
    pub json: bool,
    /// Source text.
    pub source: bool,
    /// Counts are known; otherwise only that a line was executed.
    pub has_counts: bool,
    /// The source tree, if the kernel was compiled in another directory.
    pub tree: Option<PathBuf>,
}

impl Form {
    /// Returns the text of a report of so many objects.
    pub fn text(
        &self,
        coverage: &Coverage,
        objects: usize,
        remarks: &[String],
    ) -> serde_json::Result<String> {
        let listing = Listing {
            tree: self.tree.as_deref(),
            has_counts: self.has_counts,
            all: !self.style.executed,
        };
        Ok(match (self.json, self.source) {
            (true, _) => json(coverage, objects, self.style, remarks)?,
            (false, true) => listing.text(coverage),
            (false, false) => text(coverage, objects, self.style),
        })
    }

    /// Writes lcov's tracefile. Files that are in the source tree have their paths there.
    pub fn tracefile(&self, to: impl io::Write, coverage: &Coverage) -> io::Result<()> {
        if self.tree.is_none() {
            return tracefile::write(to, coverage);
        }
        let mut moved = Coverage::default();
        for (path, file) in &coverage.files {
            let path = place(Path::new(path), self.tree.as_deref());
            moved.add(path.to_string_lossy().into_owned(), file.clone());
        }
        tracefile::write(to, &moved)
    }
}

/// Tenths of a percent, as text.
pub(super) fn percent(share: Share) -> String {
    if share.total == 0 {
        return "-".to_owned();
    }
    let permille = share.permille();
    format!("{}.{}%", permille / 10, permille % 10)
}

pub(super) fn fraction(share: Share) -> String {
    format!("{}/{}", share.hit, share.total)
}

/// A path below a directory, or as it is.
fn below<'p>(path: &'p str, root: &Path) -> &'p str {
    let rest = Path::new(path).strip_prefix(root).ok();
    let rest = rest.and_then(Path::to_str).filter(|rest| !rest.is_empty());
    rest.unwrap_or(path)
}

/// Rows of text, of which the last column is not padded.
pub struct Table<const N: usize>(pub Vec<[String; N]>);

impl<const N: usize> Table<N> {
    /// Returns the lines.
    pub fn text(&self) -> String {
        let mut widths = [0; N];
        for row in &self.0 {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.0 {
            for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
                // Writing to a string does not fail.
                let _ = match at + 1 == N {
                    true => writeln!(text, "{cell}"),
                    false => write!(text, "{cell:>width$}  "),
                };
            }
        }
        text
    }
}

/// Returns the line about rows that the table leaves out.
fn more(rows: usize, style: Style, untouched: usize, what: &str) -> String {
    let mut text = String::new();
    let hidden = rows.saturating_sub(style.top.unwrap_or(usize::MAX));
    if hidden > 0 {
        let _ = writeln!(text, "and {hidden} more {what}");
    }
    if style.executed {
        let _ = writeln!(text, "nothing was executed of {untouched} other {what}");
    }
    text
}

/// The text of a report.
pub fn text(coverage: &Coverage, objects: usize, style: Style) -> String {
    let paths: Vec<&Path> = coverage.files.keys().map(Path::new).collect();
    let root = main_root(&paths).unwrap_or(Path::new("/"));
    let mut text = String::new();
    if root != Path::new("/") && root != Path::new("") {
        let _ = writeln!(text, "below {}:", root.display());
    }
    text.push_str(&match style.functions {
        true => functions(coverage, root, style),
        false => files(coverage, root, style),
    });
    let (lines, functions) = coverage.shares();
    let _ = writeln!(
        text,
        "lines {} ({}), functions {} ({}), {} files, {objects} objects",
        percent(lines),
        fraction(lines),
        percent(functions),
        fraction(functions),
        coverage.files.len(),
    );
    text
}

/// The files, the worst first: those of which the smallest share was executed, and of these the largest.
fn files(coverage: &Coverage, root: &Path, style: Style) -> String {
    let files = coverage.files.iter();
    let mut rows: Vec<(&str, Share, Share)> = files
        .map(|(path, file)| (path.as_str(), file.line_share(), file.function_share()))
        .filter(|(_, lines, _)| !style.executed || lines.hit > 0)
        .collect();
    let untouched = coverage.files.len() - rows.len();
    if style.executed {
        rows.sort_by_key(|(path, lines, _)| (Reverse(lines.hit), *path));
    } else {
        rows.sort_by_key(|(path, lines, _)| (lines.permille(), Reverse(lines.missed()), *path));
    }
    let mut table = vec![["lines", "", "functions", "", "file"].map(str::to_owned)];
    for (path, lines, functions) in rows.iter().take(style.top.unwrap_or(usize::MAX)) {
        table.push([
            fraction(*lines),
            percent(*lines),
            fraction(*functions),
            percent(*functions),
            below(path, root).to_owned(),
        ]);
    }
    Table(table).text() + &more(rows.len(), style, untouched, "files")
}

/// The functions, the worst first: those that were not called, the largest of them first, and then those of which the
/// smallest share was executed.
fn functions(coverage: &Coverage, root: &Path, style: Style) -> String {
    let all = coverage.files.iter().flat_map(|(path, file)| {
        let functions = file.functions.iter();
        functions
            .map(move |((name, line), function)| (path.as_str(), name.as_str(), *line, function))
    });
    let total = all.clone().count();
    let mut rows: Vec<(&str, &str, u32, &Function)> = all
        .filter(|(_, _, _, function)| !style.executed || function.calls > 0)
        .collect();
    if style.executed {
        // Live coverage has no calls, but blocks.
        rows.sort_by_key(|(path, name, _, function)| {
            let blocks = function.blocks.unwrap_or_default();
            (Reverse((function.calls, blocks.hit)), *path, *name)
        });
    } else {
        rows.sort_by_key(|(path, name, line, function)| {
            let blocks = function.blocks.unwrap_or_default();
            (
                function.calls > 0,
                blocks.permille(),
                Reverse(blocks.missed()),
                *path,
                *line,
                *name,
            )
        });
    }
    let mut table = vec![["calls", "blocks", "", "function"].map(str::to_owned)];
    for (path, name, line, function) in rows.iter().take(style.top.unwrap_or(usize::MAX)) {
        table.push([
            function.calls.to_string(),
            function.blocks.map_or("-".to_owned(), fraction),
            function.blocks.map_or("-".to_owned(), percent),
            format!("{name} ({}:{line})", below(path, root)),
        ]);
    }
    Table(table).text() + &more(rows.len(), style, total - rows.len(), "functions")
}

#[derive(Serialize)]
pub(super) struct ShareDocument {
    hit: usize,
    total: usize,
}

impl From<Share> for ShareDocument {
    fn from(Share { hit, total }: Share) -> Self {
        Self { hit, total }
    }
}

#[derive(Serialize)]
struct FunctionDocument<'a> {
    name: &'a str,
    line: u32,
    calls: u64,
    blocks: Option<ShareDocument>,
}

#[derive(Serialize)]
struct FileDocument<'a> {
    file: &'a str,
    lines: ShareDocument,
    functions: ShareDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_list: Option<Vec<FunctionDocument<'a>>>,
}

impl<'a> FileDocument<'a> {
    fn new(path: &'a str, file: &'a File, functions: bool) -> Self {
        let list = || {
            let functions = file.functions.iter();
            let documents = functions.map(|((name, line), function)| FunctionDocument {
                name,
                line: *line,
                calls: function.calls,
                blocks: function.blocks.map(ShareDocument::from),
            });
            documents.collect()
        };
        Self {
            file: path,
            lines: file.line_share().into(),
            functions: file.function_share().into(),
            function_list: functions.then(list),
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    objects: usize,
    lines: ShareDocument,
    functions: ShareDocument,
    files: Vec<FileDocument<'a>>,
    remarks: &'a [String],
}

/// The report as a JSON document: all files in the order of their paths.
pub fn json(
    coverage: &Coverage,
    objects: usize,
    style: Style,
    remarks: &[String],
) -> serde_json::Result<String> {
    let (lines, functions) = coverage.shares();
    let files = coverage.files.iter();
    let document = Document {
        objects,
        lines: lines.into(),
        functions: functions.into(),
        files: files
            .map(|(path, file)| FileDocument::new(path, file, style.functions))
            .collect(),
        remarks,
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage() -> Coverage {
        let mut coverage = Coverage::default();
        for (path, counts, calls) in [
            ("/b/kernel/good.c", &[1, 2, 3][..], 1),
            ("/b/kernel/bad.c", &[0, 0, 0, 5], 5),
            ("/b/lib/small.c", &[0], 0),
            ("/b/lib/large.c", &[0, 0], 0),
        ] {
            let mut file = File::default();
            for (line, count) in (10..).zip(counts) {
                file.line(line, *count);
            }
            let blocks = Some(Share {
                hit: usize::from(calls > 0),
                total: 4 + path.len() % 2,
            });
            let name = path.rsplit('/').next().unwrap();
            let function = Function { calls, blocks };
            file.function(&name.replace(".c", "_do"), 10, function);
            coverage.add(path.into(), file);
        }
        coverage
    }

    #[test]
    fn the_worst_file_first() {
        let expected = "\
below /b:
lines          functions          file
  0/2    0.0%        0/1    0.0%  lib/large.c
  0/1    0.0%        0/1    0.0%  lib/small.c
  1/4   25.0%        1/1  100.0%  kernel/bad.c
  3/3  100.0%        1/1  100.0%  kernel/good.c
lines 40.0% (4/10), functions 50.0% (2/4), 4 files, 7 objects
";
        assert_eq!(text(&coverage(), 7, Style::default()), expected);
    }

    #[test]
    fn what_a_test_executed() {
        let style = Style {
            executed: true,
            top: Some(1),
            ..Style::default()
        };
        let expected = "\
below /b:
lines          functions          file
  3/3  100.0%        1/1  100.0%  kernel/good.c
and 1 more files
nothing was executed of 2 other files
lines 40.0% (4/10), functions 50.0% (2/4), 4 files, 7 objects
";
        assert_eq!(text(&coverage(), 7, style), expected);
    }

    #[test]
    fn the_worst_function_first() {
        let style = Style {
            functions: true,
            ..Style::default()
        };
        let expected = "\
below /b:
calls  blocks         function
    0     0/4   0.0%  large_do (lib/large.c:10)
    0     0/4   0.0%  small_do (lib/small.c:10)
    5     1/5  20.0%  bad_do (kernel/bad.c:10)
    1     1/4  25.0%  good_do (kernel/good.c:10)
lines 40.0% (4/10), functions 50.0% (2/4), 4 files, 7 objects
";
        assert_eq!(text(&coverage(), 7, style), expected);
    }

    #[test]
    fn nothing_to_execute() {
        assert_eq!(percent(Share { hit: 0, total: 0 }), "-");
        assert_eq!(percent(Share { hit: 1, total: 3 }), "33.3%");
    }

    #[test]
    fn documents() {
        let style = Style {
            functions: true,
            ..Style::default()
        };
        let remarks = ["one".to_owned()];
        let document = json(&coverage(), 7, style, &remarks).unwrap();
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["lines"]["hit"], 4);
        assert_eq!(document["files"][0]["file"], "/b/kernel/bad.c");
        assert_eq!(
            document["files"][0]["function_list"][0]["blocks"]["total"],
            5
        );
        assert_eq!(document["remarks"][0], "one");
        let short = json(&coverage(), 7, Style::default(), &[]).unwrap();
        assert!(!short.contains("function_list"));
    }
}
