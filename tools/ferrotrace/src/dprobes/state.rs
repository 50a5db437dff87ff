// SPDX-License-Identifier: GPL-2.0

//! The state of the loaded programs, as the kernel tells it: lines of `key=value`.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use serde::Serialize;

/// All programs, and the variables that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// The programs.
    pub programs: Vec<Program>,
    /// The global variables.
    pub globals: Vec<u64>,
    /// True if klog has a handler, which gets klog's records.
    pub klog_listens: bool,
    /// Records for klog that were lost, as it had no handler.
    pub klog_lost: u64,
    /// After a reset: what the local variables of programs were.
    #[serde(skip)]
    pub taken: Vec<Taken>,
    /// After a reset: what the global variables were.
    #[serde(skip)]
    pub taken_globals: Option<Taken>,
}

/// Values that variables had before they were made 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The program; empty for global variables.
    pub name: String,
    /// By their indexes; 0 before the first that was taken.
    pub values: Vec<u64>,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// `kernel`, `kmod` or `user`.
    pub kind: String,
    /// Its major number.
    pub major: u32,
    /// Its number.
    pub id: u32,
    /// Jumps that a run may take.
    pub jmpmax: u32,
    /// Bytes that a run may log.
    pub logmax: u32,
    /// Where its records go: `relay` or `klog`.
    pub target: String,
    /// True if the program may change registers and memory.
    pub writes: bool,
    /// Its points.
    pub points: Vec<Point>,
    /// Its local variables.
    pub locals: Vec<u64>,
}

/// A point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// `active`, `waiting`, `mismatch`, ...
    pub state: String,
    /// `break`, or what is watched.
    pub kind: String,
    /// Where it is.
    pub place: String,
    /// The address; 0 if it has none.
    pub address: u64,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// Its group.
    pub group: u32,
    /// Its type.
    #[serde(rename = "type")]
    pub kind_number: u32,
    /// Hits.
    pub hits: u64,
    /// Hits that ran the program.
    pub runs: u64,
    /// Hits that could not.
    pub missed: u64,
    /// Runs that ended with an exception.
    pub faults: u64,
    /// Runs of which not all was kept.
    pub truncated: u64,
    /// Code found instead of `opcode`: a byte, or `ftrace`.
    pub found: Option<String>,
    /// Runs after which it is disabled.
    pub max_hits: u64,
    /// Hits before the first run.
    pub pass_count: u64,
}

/// The number of the line, from 1, that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine(pub usize);

impl State {
    /// Reads the lines. What is not known is left out: keys may be added.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut state = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            state.line(line).ok_or(BadLine(number))?;
        }
        Ok(state)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "program" => self.programs.push(program(rest)?),
            "point" => {
                let program = self.programs.last_mut()?;
                program.points.push(point(rest)?);
            }
            "locals" => self.programs.last_mut()?.locals = words(rest)?,
            "globals" => self.globals = words(rest)?,
            "taken" => self.taken.push(taken(rest)?),
            "taken_globals" => self.taken_globals = Some(taken(rest)?),
            "klog" => {
                let keys = keys(rest);
                self.klog_listens = *keys.get("handler")? == "1";
                self.klog_lost = keys.get("lost")?.parse().ok()?;
            }
            _ => (),
        }
        Some(())
    }

    /// The names of the programs.
    pub fn names(&self) -> Vec<String> {
        let programs = self.programs.iter();
        programs.map(|program| program.name.clone()).collect()
    }
}

fn words(text: &str) -> Option<Vec<u64>> {
    let words = text.split_ascii_whitespace();
    words.map(|word| word.parse().ok()).collect()
}

fn taken(text: &str) -> Option<Taken> {
    let (text, name) = text.split_once(" name=").unwrap_or((text, ""));
    let keys = keys(text);
    let first: u64 = keys.get("first")?.parse().ok()?;
    let values = keys.get("values")?.split(',').filter(|one| !one.is_empty());
    let values = values.map(|value| value.parse().ok());
    Some(Taken {
        name: name.to_owned(),
        // There are few.
        values: (0..first.min(1 << 16))
            .map(|_| Some(0))
            .chain(values)
            .collect::<Option<_>>()?,
    })
}

fn keys(text: &str) -> BTreeMap<&str, &str> {
    let words = text.split_ascii_whitespace();
    words.filter_map(|word| word.split_once('=')).collect()
}

fn program(text: &str) -> Option<Program> {
    // Names may have blanks, and are last.
    let (text, name) = text.split_once(" name=")?;
    let keys = keys(text);
    let number = |key| keys.get(key)?.parse().ok();
    let word = |key| keys.get(key).map(|word| (*word).to_owned());
    Some(Program {
        name: name.to_owned(),
        kind: word("kind")?,
        major: number("major")?,
        id: number("id")?,
        jmpmax: number("jmpmax")?,
        logmax: number("logmax")?,
        target: word("target")?,
        writes: word("writes")? == "1",
        ..Program::default()
    })
}

fn point(text: &str) -> Option<Point> {
    // A place may have blanks, and is last.
    let (text, place) = text.split_once(" place=")?;
    let keys = keys(text);
    let number = |key| keys.get(key)?.parse().ok();
    let long = |key| keys.get(key)?.parse().ok();
    let word = |key| keys.get(key).map(|word| (*word).to_owned());
    let address = keys.get("address")?.strip_prefix("0x")?;
    Some(Point {
        state: word("state")?,
        kind: word("kind")?,
        place: place.to_owned(),
        address: u64::from_str_radix(address, 16).ok()?,
        major: number("major")?,
        minor: number("minor")?,
        group: number("group")?,
        kind_number: number("type")?,
        hits: long("hits")?,
        runs: long("runs")?,
        missed: long("missed")?,
        faults: long("faults")?,
        truncated: long("truncated").unwrap_or(0),
        found: word("found"),
        max_hits: long("max_hits")?,
        pass_count: long("pass_count")?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const STATE: &str = "\
program kind=kernel major=1 id=7 locals=2 globals=1 jmpmax=32 logmax=100 target=relay writes=0 name=vmlinux
point state=active kind=break major=1 minor=2 group=0 type=0 hits=100 runs=98 missed=1 faults=0 truncated=3 max_hits=1000 pass_count=2 address=0xffffffff81000100 place=kernel_clone+0x0
locals 0 98
program kind=user major=2 id=0 locals=0 globals=1 jmpmax=65535 logmax=1024 target=klog writes=1 name=/a b/libc.so.6
point state=mismatch kind=w major=2 minor=1 group=3 type=4 hits=0 runs=0 missed=0 faults=0 max_hits=2147483647 pass_count=0 address=0x0 found=0xf3 place=0x404040
locals
globals 5 0 0
klog handler=0 lost=12
";

    #[test]
    fn what_a_reset_has_taken() {
        let text = "taken first=2 values=7,8 name=/a b\ntaken_globals first=0 values=\nglobals 0\n";
        let state = State::parse(text).unwrap();
        let taken = Taken {
            name: "/a b".to_owned(),
            values: vec![0, 0, 7, 8],
        };
        assert_eq!(state.taken, [taken]);
        assert_eq!(state.taken_globals, Some(Taken::default()));
        assert_eq!(
            State::parse("taken first=0 values=x name=a\n"),
            Err(BadLine(1))
        );
    }

    #[test]
    fn lines() {
        let state = State::parse(STATE).unwrap();
        assert_eq!(state.names(), ["vmlinux", "/a b/libc.so.6"]);
        let program = &state.programs[0];
        assert_eq!((program.id, program.writes), (7, false));
        assert_eq!(program.locals, [0, 98]);
        assert_eq!(program.points[0].runs, 98);
        assert_eq!(program.points[0].place, "kernel_clone+0x0");
        assert_eq!(state.programs[1].points[0].kind_number, 4);
        assert_eq!(state.globals, [5, 0, 0]);
        assert_eq!(program.points[0].truncated, 3);
        assert_eq!(state.programs[1].points[0].found.as_deref(), Some("0xf3"));
        assert_eq!((state.klog_listens, state.klog_lost), (false, 12));
        assert_eq!(State::parse("locals 1\n"), Err(BadLine(1)));
        assert_eq!(State::parse("globals 1\nprogram x\n"), Err(BadLine(2)));
        assert_eq!(State::parse("new line\n"), Ok(State::default()));
    }
}
