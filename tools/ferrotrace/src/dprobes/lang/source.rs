// SPDX-License-Identifier: GPL-2.0

//! The lines of a program file, each with the file and the number that it has there.
//!
//! A file with lines that begin with `#` goes through the C preprocessor first, as it always did for DProbes.

#![deny(unsafe_code)]

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use thiserror::Error;

use crate::file::read_at_most;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file that it is from.
    pub file: Rc<str>,
    /// Its number there, from 1.
    pub number: usize,
    /// Its text, without the end of the line.
    pub text: String,
}

/// The lines of a file, and of what it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// In order.
    pub lines: Vec<Line>,
}

/// A part of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The index of the line in [`Source::lines`].
    pub line: usize,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

impl Span {
    /// From the start of this one to the end of another on the same line.
    pub fn to(self, end: Self) -> Self {
        Self {
            end: end.end,
            ..self
        }
    }
}

/// A name that stands for something else in program files: `-D key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Define {
    /// The name.
    pub key: String,
    /// Replacement text.
    pub value: String,
}

impl std::str::FromStr for Define {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').unwrap_or((text, "1"));
        let (key, value) = (key.trim(), value.trim());
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if key.is_empty() || !key.chars().all(good) || key.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(format!(
                "\"{key}\" is no name: letters, digits and _ (KEY=VALUE)"
            ));
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The system refuses.
    #[error("{}: cannot read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The preprocessor cannot be run.
    #[error("{}: it has preprocessor lines (#), but {program} cannot be run", path.display())]
    NoPreprocessor {
        /// The file.
        path: PathBuf,
        /// The compiler.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The preprocessor finds errors.
    #[error("{}: the preprocessor refuses it:\n{said}", path.display())]
    Preprocessor {
        /// The file.
        path: PathBuf,
        /// Messages of the preprocessor.
        said: String,
    },
    /// Not text.
    #[error("{}: not a text file", .0.display())]
    NotText(PathBuf),
}

/// The most bytes of a file.
const MAX_SOURCE: u64 = 16 << 20;

impl Source {
    /// Reads a file.
    pub fn read(path: &Path, defines: &[Define]) -> Result<Self, SourceError> {
        let bytes = read_at_most(path, MAX_SOURCE).map_err(|source| SourceError::Io {
            path: path.into(),
            source,
        })?;
        let text = String::from_utf8(bytes).map_err(|_| SourceError::NotText(path.into()))?;
        if text.lines().any(|line| line.trim_start().starts_with('#')) {
            let text = preprocess(path, defines)?;
            return Ok(Self::preprocessed(&path.display().to_string(), &text));
        }
        Ok(Self::of_text(&path.display().to_string(), &text))
    }

    /// The lines of a text.
    pub fn of_text(file: &str, text: &str) -> Self {
        let file: Rc<str> = file.into();
        let lines = (1..).zip(text.lines()).map(|(number, text)| Line {
            file: file.clone(),
            number,
            text: text.to_owned(),
        });
        Self {
            lines: lines.collect(),
        }
    }

    /// The lines that the preprocessor prints: `# 12 "file"` says where the next one is from.
    fn preprocessed(file: &str, text: &str) -> Self {
        let mut file: Rc<str> = file.into();
        let mut number = 1;
        let mut lines = Vec::new();
        for text in text.lines() {
            if let Some((next, from)) = marker(text) {
                (number, file) = (next, from.into());
                continue;
            }
            lines.push(Line {
                file: file.clone(),
                number,
                text: text.to_owned(),
            });
            number += 1;
        }
        Self { lines }
    }
}

/// The number and the file of a line marker.
fn marker(line: &str) -> Option<(usize, String)> {
    let (number, rest) = line.strip_prefix("# ")?.split_once(" \"")?;
    let (file, _flags) = rest.rsplit_once('"')?;
    let file = file.replace("\\\"", "\"").replace("\\\\", "\\");
    Some((number.parse().ok()?, file))
}

fn preprocess(path: &Path, defines: &[Define]) -> Result<String, SourceError> {
    let program = std::env::var("CC").unwrap_or_else(|_| "gcc".to_owned());
    let mut command = Command::new(&program);
    command.args(["-E", "-undef", "-w", "-x", "c"]);
    for Define { key, value } in defines {
        command.arg(format!("-D{key}={value}"));
    }
    // So that it is not taken for an option.
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
    command.arg(whole).env("LC_ALL", "C");
    let output = command
        .output()
        .map_err(|source| SourceError::NoPreprocessor {
            path: path.into(),
            program,
            source,
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(SourceError::Preprocessor {
            path: path.into(),
            said: said.trim_end().to_owned(),
        });
    }
    String::from_utf8(output.stdout).map_err(|_| SourceError::NotText(path.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn defines() {
        let define = |text: &str| text.parse::<Define>();
        let parts = |text| define(text).map(|one| (one.key, one.value)).unwrap();
        assert_eq!(parts("a=1+2"), ("a".to_owned(), "1+2".to_owned()));
        assert_eq!(parts("A_1 = x=y"), ("A_1".to_owned(), "x=y".to_owned()));
        assert_eq!(parts("a"), ("a".to_owned(), "1".to_owned()));
        for bad in ["", "=1", "1a=2", "a b=1"] {
            assert!(define(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_know_where_they_are_from() {
        let dir = tempfile::tempdir().unwrap();
        let (main, header) = (dir.path().join("a.dp"), dir.path().join("a.h"));
        fs::write(&header, "#define N 3\npush N\n").unwrap();
        fs::write(
            &main,
            "// it's\n#include \"a.h\"\n#ifdef MORE\npush MORE\n#endif\nexit\n",
        )
        .unwrap();
        let more = "MORE=7".parse().unwrap();
        let source = Source::read(&main, &[more]).unwrap();
        let seen: Vec<_> = source
            .lines
            .iter()
            .filter(|line| !line.text.trim().is_empty())
            .map(|line| {
                let file = Path::new(&*line.file).file_name().unwrap();
                (file.to_str().unwrap(), line.number, line.text.as_str())
            })
            .collect();
        let expected = [
            ("a.h", 2, "push 3"),
            ("a.dp", 4, "push 7"),
            ("a.dp", 6, "exit"),
        ];
        assert_eq!(seen, expected);
        fs::write(&main, "#include \"none.h\"\n").unwrap();
        let error = Source::read(&main, &[]).unwrap_err().to_string();
        assert!(error.contains("none.h"), "{error}");
    }
}
