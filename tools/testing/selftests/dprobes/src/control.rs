// SPDX-License-Identifier: GPL-2.0

//! The file `control`.

use std::collections::HashMap;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::FileExt;

pub const DIR: &str = "/sys/kernel/debug/ferrotrace_dprobes";

/// An open file.
pub struct Control(File);

/// Keys and values of a point's line.
pub type Keys = HashMap<String, String>;

/// The state of everything.
#[derive(Debug, Default)]
pub struct State {
    pub error: Option<String>,
    pub programs: Vec<Keys>,
    /// Of all programs, one after another.
    pub points: Vec<Keys>,
    /// Of each program.
    pub locals: Vec<Vec<u64>>,
    pub globals: Vec<u64>,
    /// Lines that a reset has taken: those for programs, and one for the global variables.
    pub taken: Vec<Keys>,
    pub klog: Keys,
}

impl Control {
    pub fn open() -> Self {
        let path = format!("{DIR}/control");
        let file = OpenOptions::new().read(true).write(true).open(path);
        Self(file.expect("cannot open control"))
    }

    /// Writes a set or a command; the error is the one that the file returns.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let written = (&self.0).write(bytes)?;
        assert_eq!(written, bytes.len());
        Ok(())
    }

    pub fn state(&self) -> State {
        let mut text = Vec::new();
        let mut piece = [0; 4000];
        loop {
            let n = self.0.read_at(&mut piece, text.len() as u64).unwrap();
            if n == 0 {
                break;
            }
            text.extend(&piece[..n]);
        }
        State::parse(&String::from_utf8(text).unwrap())
    }
}

impl State {
    fn parse(text: &str) -> Self {
        let mut state = Self::default();
        for line in text.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let numbers = || {
                rest.split_whitespace()
                    .map(|n| n.parse().unwrap())
                    .collect()
            };
            match word {
                "error:" => state.error = Some(rest.to_string()),
                "program" => state.programs.push(keys(rest)),
                "point" => state.points.push(keys(rest)),
                "locals" => state.locals.push(numbers()),
                "globals" => state.globals = numbers(),
                "taken" | "taken_globals" => state.taken.push(keys(rest)),
                "klog" => state.klog = keys(rest),
                _ => panic!("unknown line: {line}"),
            }
        }
        state
    }

    /// A number of the first point.
    pub fn number(&self, key: &str) -> u64 {
        number(&self.points[0], key)
    }
}

pub fn number(keys: &Keys, key: &str) -> u64 {
    keys[key].parse().unwrap()
}

/// Parses `key=value ...`; the value of `name` is the rest of the line.
fn keys(text: &str) -> Keys {
    let (text, name) = text.split_once(" name=").unwrap_or((text, ""));
    let keys = text
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap());
    let keys = keys.chain([("name", name)]);
    keys.map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

pub fn state() -> State {
    Control::open().state()
}

pub fn remove_all() {
    Control::open().write(b"remove *\n").expect("remove *");
    Control::open().write(b"reset *\n").expect("reset *");
}
