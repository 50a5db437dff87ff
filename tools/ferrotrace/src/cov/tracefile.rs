// SPDX-License-Identifier: GPL-2.0

//! Coverage as lcov's tracefile, which genhtml and lcov read.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use super::coverage::Coverage;
use super::coverage::File;

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
    use super::super::coverage::Function;
    use super::*;

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
}
