// SPDX-License-Identifier: GPL-2.0

//! What gcov and llvm-cov print of an object.

#![deny(unsafe_code)]

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Number;

use super::coverage::File;
use super::coverage::Function;
use super::coverage::Share;

/// An object's part of its source files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Where the compiler ran, if that is known.
    pub directory: Option<PathBuf>,
    /// The files, with the compiler's names.
    pub files: Vec<(String, File)>,
    /// Counts that were negative, and stand in the files as 0.
    pub negative: usize,
}

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    current_working_directory: String,
    files: Vec<JsonFile>,
}

#[derive(Deserialize)]
struct JsonFile {
    file: String,
    functions: Vec<JsonFunction>,
    lines: Vec<JsonLine>,
}

#[derive(Deserialize)]
struct JsonFunction {
    name: String,
    start_line: u32,
    execution_count: Number,
    blocks: usize,
    blocks_executed: usize,
}

#[derive(Deserialize)]
struct JsonLine {
    line_number: u32,
    count: Number,
    #[serde(default)]
    unexecuted_block: bool,
    #[serde(default)]
    branches: Vec<JsonBranch>,
}

#[derive(Deserialize)]
struct JsonBranch {
    count: Number,
}

/// Sorts out negative counts. The programs compute counts from those of arcs: if these were read
/// while they changed, or are damaged, a count may be less than 0, and says nothing.
#[derive(Default)]
struct Negative(usize);

impl Negative {
    /// Of gcov, which prints a large count with an exponent.
    fn json(&mut self, count: &Number) -> u64 {
        match (count.as_u64(), count.as_f64()) {
            (Some(count), _) => count,
            (_, Some(count)) if count >= 0.0 => format!("{count:.0}").parse().unwrap_or(u64::MAX),
            _ => self.zero(),
        }
    }

    /// Of llvm-cov, which computes and prints them without a sign.
    fn unsigned(&mut self, count: u64) -> u64 {
        match i64::try_from(count) {
            Ok(_) => count,
            Err(_) => self.zero(),
        }
    }

    fn zero(&mut self) -> u64 {
        self.0 += 1;
        0
    }
}

/// Understands the JSON of gcov.
pub fn parse_json(bytes: &[u8]) -> Result<Document, String> {
    let text = String::from_utf8_lossy(bytes);
    let json: Json = serde_json::from_str(&text).map_err(|error| {
        if text.trim().is_empty() {
            "printed nothing".to_owned()
        } else {
            format!("printed something else than expected: {error}")
        }
    })?;
    let mut files = Vec::with_capacity(json.files.len());
    let mut negative = Negative::default();
    for part in json.files {
        let mut file = File::default();
        // Functions that begin at the same place, as a macro's do, have lines of their own.
        for line in part.lines {
            let count = negative.json(&line.count);
            file.line(line.line_number, count);
            let is_reached = count > 0 || !line.unexecuted_block;
            let branches = line.branches.iter();
            let counts = branches.map(|branch| negative.json(&branch.count));
            let taken = counts.map(|count| is_reached.then_some(count));
            file.branches(line.line_number, taken);
        }
        for function in part.functions {
            let blocks = Share {
                hit: function.blocks_executed,
                total: function.blocks,
            };
            let calls = negative.json(&function.execution_count);
            let blocks = Some(blocks);
            file.function(
                &function.name,
                function.start_line,
                Function { calls, blocks },
            );
        }
        files.push((part.file, file));
    }
    let directory = json.current_working_directory;
    Ok(Document {
        directory: (!directory.is_empty()).then(|| directory.into()),
        files,
        negative: negative.0,
    })
}

/// Understands the intermediate format of llvm-cov: `file:NAME`, `function:LINE,CALLS,NAME`, `lcount:LINE,COUNT`,
/// `branch:LINE,taken` (or `nottaken`, `notexec`), which does not say how often.
pub fn parse_lines(text: &str) -> Result<Document, String> {
    let mut files: Vec<(String, File)> = Vec::new();
    let mut negative = Negative::default();
    // The branches of a line follow each other.
    let mut branches = (0, Vec::new());
    for line in text.lines() {
        let unknown = || format!("printed something else than expected: {line:?}");
        let (key, value) = line.split_once(':').ok_or_else(unknown)?;
        if key == "file" {
            files.push((value.to_owned(), File::default()));
            continue;
        }
        let (_, file) = files.last_mut().ok_or_else(unknown)?;
        let mut fields = value.splitn(3, ',');
        let mut number = || fields.next()?.parse::<u64>().ok();
        match key {
            "function" => {
                let at = number().and_then(|at| u32::try_from(at).ok());
                let (at, calls) = at.zip(number()).ok_or_else(unknown)?;
                let function = Function {
                    calls: negative.unsigned(calls),
                    blocks: None,
                };
                file.function(fields.next().ok_or_else(unknown)?, at, function);
            }
            "lcount" => {
                let at = number().and_then(|at| u32::try_from(at).ok());
                let (at, count) = at.zip(number()).ok_or_else(unknown)?;
                file.line(at, negative.unsigned(count));
            }
            "branch" => {
                let at = number().and_then(|at| u32::try_from(at).ok());
                let at = at.ok_or_else(unknown)?;
                if branches.0 != at {
                    branches = (at, Vec::new());
                }
                // Those before it have been added.
                branches.1.fill(None);
                branches.1.push(match fields.next() {
                    Some("taken") => Some(1),
                    Some("nottaken") => Some(0),
                    _ => None,
                });
                file.branches(at, branches.1.iter().copied());
            }
            _ => (),
        }
        if key != "branch" {
            branches = (0, Vec::new());
        }
    }
    Ok(Document {
        directory: None,
        files,
        negative: negative.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json() {
        let text = r#"{"gcc_version": "12.2.0", "current_working_directory": "/b", "data_file": "object.gcda",
            "format_version": "1", "files": [{"file": "./a.c",
            "lines": [{"line_number": 3, "count": 2, "branches": [{"fallthrough": true, "count": 2, "throw": false}, {"count": 0}], "unexecuted_block": false},
                {"line_number": 3, "count": 5, "branches": [], "unexecuted_block": false},
                {"line_number": 4, "count": -1, "branches": [{"count": -1e3}], "unexecuted_block": true},
                {"line_number": 5, "count": 18446744073709551615, "branches": [], "unexecuted_block": true},
                {"line_number": 6, "count": 1e10, "branches": [], "unexecuted_block": true}],
            "functions": [{"name": "f", "demangled_name": "f", "start_line": 2, "start_column": 1, "end_line": 6,
                "end_column": 1, "blocks": 4, "blocks_executed": 3, "execution_count": 2}]}]}"#;
        let document = parse_json(text.as_bytes()).unwrap();
        assert_eq!(document.directory, Some("/b".into()));
        let (name, file) = &document.files[0];
        assert_eq!(name, "./a.c");
        assert_eq!(
            file.lines,
            [(3, 7), (4, 0), (5, u64::MAX), (6, 10_000_000_000)].into()
        );
        assert_eq!(
            file.branches,
            [(3, vec![Some(2), Some(0)]), (4, vec![None])].into()
        );
        assert_eq!(document.negative, 2);
        let blocks = Some(Share { hit: 3, total: 4 });
        let function = Function { calls: 2, blocks };
        assert_eq!(file.functions, [(("f".to_owned(), 2), function)].into());
        assert_eq!(parse_json(b" \n").unwrap_err(), "printed nothing");
        assert!(parse_json(b"{}").unwrap_err().contains("missing field"));
        let lossy =
            parse_json(b"{\"files\": [{\"file\": \"\xff.c\", \"functions\": [], \"lines\": []}]}")
                .unwrap();
        assert_eq!(lossy.files[0].0, "\u{fffd}.c");
    }

    #[test]
    fn lines() {
        let text = "file:../a,b.c\nfunction:4,1,f\nfunction:6,0,g\nlcount:4,1\nbranch:4,taken\nbranch:4,nottaken\nlcount:6,0\nbranch:6,notexec\n\
            file:x.h\nlcount:1,2\nlcount:2,18446744073709551614\n";
        let document = parse_lines(text).unwrap();
        let [(first, file), (second, header)] = &document.files[..] else {
            panic!("{document:?}");
        };
        assert_eq!((first.as_str(), second.as_str()), ("../a,b.c", "x.h"));
        assert_eq!(file.lines, [(4, 1), (6, 0)].into());
        assert_eq!(
            file.branches,
            [(4, vec![Some(1), Some(0)]), (6, vec![None])].into()
        );
        let functions = file.functions.iter();
        let functions =
            functions.map(|((name, line), function)| (name.as_str(), *line, function.calls));
        assert_eq!(functions.collect::<Vec<_>>(), [("f", 4, 1), ("g", 6, 0)]);
        // What llvm-cov prints for -2.
        assert_eq!(header.lines, [(1, 2), (2, 0)].into());
        assert_eq!(document.negative, 1);
        for bad in [
            "lcount:1,2",
            "file:a\nlcount:1",
            "file:a\nfunction:1,2",
            "text",
        ] {
            assert!(parse_lines(bad).is_err(), "{bad}");
        }
    }
}
