// SPDX-License-Identifier: GPL-2.0

//! Coverage as lcov's tracefile, which genhtml and lcov read, and which many tools write.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io;
use std::io::BufRead;
use std::io::Read;
use std::io::Write;
use std::path::Path;

use thiserror::Error;

use super::coverage::Coverage;
use super::coverage::File;
use super::coverage::Function;
use super::paths::plain;
use crate::kallsyms::demangled;

/// Bytes of the longest line that is read. Names of functions in Rust can be long.
const LINE: u64 = 1 << 20;

/// Bytes of the longest tracefile that is read. A kernel's has 100 MB.
const MOST: u64 = 4 << 30;

/// Failure to read a tracefile.
#[derive(Debug, Error)]
pub enum TracefileError {
    /// A line is not understood.
    #[error("line {line}: {fault}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The reason.
        fault: Fault,
    },
    /// Nothing is in it.
    #[error("no source file is in it")]
    Empty,
    /// Some process writes to it without an end.
    #[error("longer than {MOST} bytes")]
    Long,
    /// The system refused.
    #[error("cannot be read")]
    Io(#[from] io::Error),
}

/// Fault of a line.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// Something else.
    #[error("not a line of a tracefile")]
    Unknown,
    /// More bytes than any name has.
    #[error("longer than {LINE} bytes")]
    Long,
    /// A number is missing, negative or too large.
    #[error("{0:?} is no {1}")]
    Number(String, &'static str),
    /// A record has no file.
    #[error("no SF: before it")]
    NoFile,
    /// A record has two files.
    #[error("SF: in the record of another file, which has no end_of_record")]
    TwoFiles,
    /// The tracefile was cut off.
    #[error("the last record has no end_of_record: the tracefile is not whole")]
    Unfinished,
    /// Calls of a function that no line begins.
    #[error("calls of {0:?}, whose first line no FN: or FNL: has")]
    NoFunction(String),
}

/// A record that is being read.
#[derive(Default)]
struct Record {
    path: String,
    file: File,
    /// First lines of functions, by their names. Lists of calls may precede them.
    starts: HashMap<String, Vec<u32>>,
    calls: Vec<(u64, String, u64)>,
    /// First lines of functions, by the numbers that newer tracefiles give them.
    numbered: HashMap<u64, u32>,
}

/// Parses the number of a line.
fn line_number(text: &str) -> Result<u32, Fault> {
    let fault = || Fault::Number(text.to_owned(), "line");
    text.parse().map_err(|_| fault())
}

/// Parses a number of executions; a large one may have an exponent.
fn count(text: &str) -> Result<u64, Fault> {
    let large = |number: f64| format!("{number:.0}").parse().unwrap_or(u64::MAX);
    let other = || {
        text.parse()
            .ok()
            .filter(|n: &f64| n.is_finite() && *n >= 0.0)
    };
    let number = text.parse().ok().or_else(|| other().map(large));
    number.ok_or_else(|| Fault::Number(text.to_owned(), "count"))
}

/// Returns the fields before and after the first comma.
fn pair(text: &str) -> Result<(&str, &str), Fault> {
    text.split_once(',').ok_or(Fault::Unknown)
}

/// Returns the name of a function without the line that [`names`] may have added.
fn own_name(name: &str, line: u32) -> &str {
    let own = name.strip_suffix(&line.to_string());
    own.and_then(|own| own.strip_suffix(':')).unwrap_or(name)
}

impl Record {
    /// Adds a function, or calls of it.
    fn function(&mut self, name: &str, line: u32, calls: u64) {
        let blocks = None;
        let name = demangled(own_name(name, line));
        self.file.function(&name, line, Function { calls, blocks });
    }

    /// Understands a line.
    fn line(&mut self, number: u64, key: &str, value: &str) -> Result<(), Fault> {
        match key {
            "DA" => {
                let (line, rest) = pair(value)?;
                // A checksum may follow.
                let executed = rest.split_once(',').map_or(rest, |(executed, _)| executed);
                self.file.line(line_number(line)?, count(executed)?);
            }
            "FN" => {
                let (line, rest) = pair(value)?;
                // Newer ones have the last line as well. No name begins with a digit.
                let last = rest.split_once(',');
                let last = last.filter(|(last, _)| last.parse::<u32>().is_ok());
                let name = last.map_or(rest, |(_, name)| name);
                let lines = self.starts.entry(name.to_owned()).or_default();
                lines.push(line_number(line)?);
            }
            "FNDA" => {
                let (calls, name) = pair(value)?;
                self.calls.push((number, name.to_owned(), count(calls)?));
            }
            "FNL" => {
                let (index, rest) = pair(value)?;
                let line = rest.split_once(',').map_or(rest, |(line, _)| line);
                self.numbered.insert(count(index)?, line_number(line)?);
            }
            "FNA" => {
                let (index, rest) = pair(value)?;
                let (calls, name) = pair(rest)?;
                let line = self.numbered.get(&count(index)?).copied();
                let line = line.ok_or_else(|| Fault::NoFunction(name.to_owned()))?;
                self.function(name, line, count(calls)?);
            }
            // Branches, conditions, sums, and additions of later versions.
            _ => (),
        }
        Ok(())
    }

    /// Adds the record to coverage.
    fn finish(mut self, coverage: &mut Coverage) -> Result<(), (u64, Fault)> {
        let starts = std::mem::take(&mut self.starts);
        for (name, lines) in &starts {
            for line in lines {
                self.function(name, *line, 0);
            }
        }
        for (number, name, calls) in std::mem::take(&mut self.calls) {
            let Some(lines) = starts.get(&name) else {
                return Err((number, Fault::NoFunction(name)));
            };
            for line in lines {
                self.function(&name, *line, calls);
            }
        }
        coverage.add(self.path, self.file);
        Ok(())
    }
}

/// Returns true if a file that begins with these bytes may be a tracefile.
pub fn is_begun(head: &[u8]) -> bool {
    [&b"TN:"[..], b"SF:", b"#", b"\n", b"\r"]
        .iter()
        .any(|start| head.starts_with(start))
}

/// Reads a tracefile, and adds its lines and functions to coverage.
pub fn read(from: impl BufRead, coverage: &mut Coverage) -> Result<(), TracefileError> {
    let mut from = from.take(MOST);
    let mut record: Option<Record> = None;
    let (mut number, mut is_empty, mut bytes) = (0, true, Vec::new());
    loop {
        bytes.clear();
        (&mut from).take(LINE).read_until(b'\n', &mut bytes)?;
        if from.limit() == 0 {
            return Err(TracefileError::Long);
        }
        if bytes.is_empty() {
            break;
        }
        number += 1;
        let at = |fault| TracefileError::Line {
            line: number,
            fault,
        };
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        if u64::try_from(line.len()).is_ok_and(|len| len == LINE) {
            return Err(at(Fault::Long));
        }
        let line = String::from_utf8_lossy(line);
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "end_of_record" {
            let record = record.take().ok_or_else(|| at(Fault::NoFile))?;
            let finished = record.finish(coverage);
            finished.map_err(|(line, fault)| TracefileError::Line { line, fault })?;
            is_empty = false;
            continue;
        }
        let is_key = |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_uppercase());
        let parts = line.split_once(':').filter(|(key, _)| is_key(key));
        let (key, value) = parts.ok_or_else(|| at(Fault::Unknown))?;
        match (key, &mut record) {
            ("TN", _) => (),
            ("SF", Some(_)) => return Err(at(Fault::TwoFiles)),
            ("SF", None) => {
                let path = plain(Path::new(value)).to_string_lossy().into_owned();
                record = Some(Record {
                    path,
                    ..Record::default()
                });
            }
            (_, None) => return Err(at(Fault::NoFile)),
            (_, Some(record)) => record.line(number, key, value).map_err(at)?,
        }
    }
    match (record, is_empty) {
        (Some(_), _) => Err(TracefileError::Line {
            line: number,
            fault: Fault::Unfinished,
        }),
        (None, true) => Err(TracefileError::Empty),
        (None, false) => Ok(()),
    }
}

/// The names of a file's functions. A tracefile identifies a function by its name alone, so
/// functions of one name have the lines where they begin in theirs.
fn names(file: &File) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in file.functions.keys() {
        *counts.entry(name).or_default() += 1;
    }
    let functions = file.functions.keys();
    let unique = functions.map(|(name, line)| match counts.get(name.as_str()) {
        Some(2..) => format!("{name}:{line}"),
        _ => name.clone(),
    });
    unique.collect()
}

/// Writes a tracefile. A line break in a file's name would end it: such a character is left out.
pub fn write(mut to: impl Write, coverage: &Coverage) -> io::Result<()> {
    for (path, file) in &coverage.files {
        writeln!(to, "TN:\nSF:{}", path.replace(['\n', '\r'], ""))?;
        let names = names(file);
        for (name, (_, line)) in names.iter().zip(file.functions.keys()) {
            writeln!(to, "FN:{line},{name}")?;
        }
        for (name, function) in names.iter().zip(file.functions.values()) {
            writeln!(to, "FNDA:{},{name}", function.calls)?;
        }
        let functions = file.function_share();
        writeln!(to, "FNF:{}\nFNH:{}", functions.total, functions.hit)?;
        for (line, count) in &file.lines {
            writeln!(to, "DA:{line},{count}")?;
        }
        for (line, branches) in &file.branches {
            for (at, taken) in branches.iter().enumerate() {
                let taken = taken.map_or("-".to_owned(), |taken| taken.to_string());
                writeln!(to, "BRDA:{line},0,{at},{taken}")?;
            }
        }
        let branches = file.branch_share();
        if branches.total > 0 {
            writeln!(to, "BRF:{}\nBRH:{}", branches.total, branches.hit)?;
        }
        let lines = file.line_share();
        writeln!(to, "LF:{}\nLH:{}\nend_of_record", lines.total, lines.hit)?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Coverage, String> {
        let mut coverage = Coverage::default();
        let done = read(text.as_bytes(), &mut coverage);
        done.map(|()| coverage).map_err(|error| error.to_string())
    }

    #[test]
    fn records() {
        let mut file = File::default();
        file.line(2, 7);
        file.line(3, 0);
        file.branches(2, [Some(7), Some(0)]);
        file.branches(3, [None]);
        let function = |calls| Function {
            calls,
            blocks: None,
        };
        file.function("f", 2, function(7));
        file.function("f", 9, function(0));
        file.function("g", 3, function(0));
        let mut coverage = Coverage::default();
        coverage.add("/b/a\n.c".into(), file);
        let mut bytes = Vec::new();
        write(&mut bytes, &coverage).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "TN:\nSF:/b/a.c\nFN:2,f:2\nFN:9,f:9\nFN:3,g\nFNDA:7,f:2\nFNDA:0,f:9\nFNDA:0,g\nFNF:3\nFNH:1\nDA:2,7\nDA:3,0\nBRDA:2,0,0,7\nBRDA:2,0,1,0\nBRDA:3,0,0,-\nBRF:3\nBRH:1\nLF:2\nLH:1\nend_of_record\n"
        );
    }

    #[test]
    fn forms_of_functions() {
        let calls = |text: &str| {
            let text = format!("TN:\nSF:/b/./a.c\n{text}DA:3,0,sum\nend_of_record\n");
            let mut files = parse(&text).unwrap().files;
            let file = files.remove("/b/a.c").unwrap();
            assert_eq!(file.lines, [(3, 0)].into());
            let functions = file.functions.into_iter();
            let functions = functions.map(|((name, line), f)| format!("{name}:{line}={}", f.calls));
            functions.collect::<Vec<_>>()
        };
        assert_eq!(calls("FN:3,f\nFNDA:7,f\n"), ["f:3=7"]);
        assert_eq!(calls("FNDA:7,f\nFN:3,9,f\n"), ["f:3=7"]);
        assert_eq!(
            calls("FN:3,a<b,c>\nFN:5,9,d,4\n"),
            ["a<b,c>:3=0", "d,4:5=0"]
        );
        assert_eq!(
            calls("FNL:0,3,9\nFNA:0,1,f\nFNA:0,2,g\n"),
            ["f:3=1", "g:3=2"]
        );
        assert_eq!(
            calls("FN:2,f:2\nFN:9,f:9\nFNDA:1,f:9\n"),
            ["f:2=0", "f:9=1"]
        );
        assert_eq!(calls("FN:2,f:2x\nFNDA:1.5e+1,f:2x\n"), ["f:2x:2=15"]);
        let mangled = "_RNvCs4Q2Qx8jI5j6_1a1g";
        let text = format!("FN:3,{mangled}\nFNDA:5,{mangled}\nFNF:1\nFNH:1\nBRDA:3,0,0,-\n");
        assert_eq!(calls(&text), ["a::g:3=5"]);
    }

    /// Several tests, or files that were put together, have several records of one file.
    #[test]
    fn records_of_one_file() {
        let one = "TN:one\nSF:/a.c\nFN:1,f\nFNDA:1,f\nDA:1,1\nDA:2,0\nend_of_record\n";
        let other = "# a remark\r\n\r\nSF:/a.c\r\nFN:1,f\r\nDA:2,3\r\nend_of_record\r\n";
        let coverage = parse(&format!("{one}{other}")).unwrap();
        let file = &coverage.files["/a.c"];
        assert_eq!(file.lines, [(1, 1), (2, 3)].into());
        assert_eq!(file.functions[&("f".to_owned(), 1)].calls, 1);
        let largest = format!("SF:/a.c\nDA:1,{}\nDA:1,1e99\nend_of_record", u64::MAX);
        assert_eq!(parse(&largest).unwrap().files["/a.c"].lines[&1], u64::MAX);
    }

    #[test]
    fn faults_have_lines() {
        for (text, said) in [
            ("", "no source file is in it"),
            ("# nothing\n", "no source file is in it"),
            ("\x7fELF\n", "line 1: not a line of a tracefile"),
            ("DA:1,1\n", "line 1: no SF: before it"),
            ("end_of_record\n", "line 1: no SF: before it"),
            (
                "SF:a\n\nSF:b\n",
                "line 3: SF: in the record of another file",
            ),
            (
                "SF:a\nDA:1,1\n",
                "line 2: the last record has no end_of_record",
            ),
            ("SF:a\nDA:1\n", "line 2: not a line of a tracefile"),
            ("SF:a\nDA:x,1\n", "line 2: \"x\" is no line"),
            (
                "SF:a\nDA:4294967296,1\n",
                "line 2: \"4294967296\" is no line",
            ),
            ("SF:a\nDA:1,-1\n", "line 2: \"-1\" is no count"),
            ("SF:a\nDA:1,inf\n", "line 2: \"inf\" is no count"),
            ("SF:a\nFN:1,f\nFNDA:?,f\n", "line 3: \"?\" is no count"),
            ("SF:a\nFNDA:1,f\nend_of_record\n", "line 2: calls of \"f\""),
            ("SF:a\nFNA:1,1,f\n", "line 2: calls of \"f\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
        let long = "x".repeat(usize::try_from(LINE).unwrap());
        let error = parse(&format!("SF:a\nFN:1,{long}\n")).unwrap_err();
        assert_eq!(error, format!("line 2: longer than {LINE} bytes"));
    }

    proptest! {
        /// A written tracefile is read again, without branches and blocks, which nothing needs.
        #[test]
        fn reads_what_it_writes(
            lines in prop::collection::btree_map(any::<u32>(), any::<u64>(), 0..20),
            functions in prop::collection::btree_map(("[a-z:,<]{1,4}", 0..9u32), any::<u64>(), 0..9),
        ) {
            let mut file = File::default();
            for (line, count) in lines {
                file.line(line, count);
            }
            for ((name, line), calls) in functions {
                file.function(&name, line, Function { calls, blocks: None });
            }
            let mut coverage = Coverage::default();
            coverage.add("/b/a.c".to_owned(), file);
            let mut bytes = Vec::new();
            write(&mut bytes, &coverage).unwrap();
            let mut again = Coverage::default();
            read(&*bytes, &mut again).unwrap();
            prop_assert_eq!(again, coverage);
        }

        /// Any bytes are read or refused.
        #[test]
        fn any_bytes(parts in prop::collection::vec("(SF|DA|FN|FNDA|FNL|FNA|x|end_of_record)[:,0-9a\n]{0,9}", 0..30)) {
            let _ = parse(&parts.concat());
        }
    }
}
