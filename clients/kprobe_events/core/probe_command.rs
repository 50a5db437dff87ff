// SPDX-License-Identifier: GPL-2.0

//! Commands of the `ferrotrace_kprobe_events` module, each a line of text.
//!
//! ```text
//! p NAME SYMBOL[+OFFSET] [ARGS]   a probe on an instruction
//! r NAME SYMBOL [ARGS]            a probe on the return of a function
//! -NAME                           removes a probe
//! -*                              removes all
//! ```
//!
//! The first line for a table is
//! `by KEY,... rows=N words=N [times=1] [value=NAME [classes=1]] [pids=PID,...] [children=1]`: see
//! [`TableCommand`].
//!
//! The first line for a channel in memory that survives a reboot is `in MEMORY as RECORDING`: see
//! [`KeepCommand`].
//!
//! ARGS are the arguments that a hit reads, and the conditions on which it counts: see
//! [`probe_args`](crate::probe_args).

use crate::probe_args::Args;

/// Maximum number of bytes of a probe's name.
pub const NAME_MAX: usize = 63;

/// Maximum number of bytes of a symbol's name.
pub const SYMBOL_MAX: usize = 511;

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On an instruction.
    Point,
    /// On the return of a function.
    Return,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Adds a probe.
    Add {
        /// Kind of the probe.
        kind: Kind,
        /// Name.
        name: &'a str,
        /// Function.
        symbol: &'a str,
        /// Number of bytes from its start to the instruction.
        offset: u32,
        /// Arguments and conditions.
        args: Args<'a>,
    },
    /// Removes the probe of that name.
    Remove(&'a str),
    /// Removes all probes.
    RemoveAll,
}

impl<'a> Command<'a> {
    /// Parses a line, without its end. Returns `None` if it is not a command.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = core::str::from_utf8(line).ok()?;
        match line.strip_prefix('-') {
            Some("*") => return Some(Self::RemoveAll),
            Some(removed) => return Some(Self::Remove(name(removed)?)),
            None => (),
        }
        let (word, rest) = first_word(line)?;
        let kind = match word {
            "p" => Kind::Point,
            "r" => Kind::Return,
            _ => return None,
        };
        let (word, rest) = first_word(rest)?;
        let name = name(word)?;
        let (word, rest) = first_word(rest)?;
        let (symbol, offset) = place(word)?;
        // A return probe is on a function, so it takes no offset.
        if kind == Kind::Return && offset != 0 {
            return None;
        }
        Some(Self::Add {
            kind,
            name,
            symbol,
            offset,
            args: Args::parse(rest, kind == Kind::Return)?,
        })
    }
}

/// Maximum number of bytes of the text that identifies a recording.
pub const RECORDING_MAX: usize = 63;

/// A command that opens a channel in memory that survives a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepCommand<'a> {
    /// Name of the memory on the kernel's command line.
    pub memory: &'a str,
    /// Text that identifies the recording; the memory has it.
    pub recording: &'a str,
}

impl<'a> KeepCommand<'a> {
    /// Parses a line, without its end. Returns `None` for other lines.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = core::str::from_utf8(line).ok()?.strip_prefix("in ")?;
        let (memory, recording) = line.split_once(" as ")?;
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        let fits = recording.len() <= RECORDING_MAX;
        (is_word(memory) && is_word(recording) && fits).then_some(Self { memory, recording })
    }
}

/// A command that makes the tables of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCommand<'a> {
    /// Parts of the key, with commas: `pid`, `comm`, and names of arguments. Others have no effect.
    pub by: &'a str,
    /// True to add up the times in the functions, too.
    pub times: bool,
    /// Argument with values to add up, in place of times.
    pub value: Option<&'a str>,
    /// True to count values by classes.
    pub classes: bool,
    /// Rows of a CPU.
    pub rows: usize,
    /// Maximum number of words of a key.
    pub words: usize,
    /// Processes and threads with hits that count, with commas.
    pids: &'a str,
    /// True if the hits of the reader's later children count.
    pub children: bool,
}

impl<'a> TableCommand<'a> {
    /// Parses a line, without its end. Returns `None` for other lines.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(line).ok()?.split([' ', '\t']);
        if words.next() != Some("by") {
            return None;
        }
        let by = words
            .next()
            .filter(|by| !by.is_empty() && !by.contains('='))?;
        let (mut rows, mut key_words, mut pids) = (None, None, None);
        let (mut times, mut children) = (None, None);
        let (mut value, mut classes) = (None, None);
        for word in words {
            let (key, text) = word.split_once('=')?;
            let is_first = match key {
                "times" => text == "1" && times.replace(true).is_none(),
                "value" => value.replace(text).is_none(),
                "classes" => text == "1" && classes.replace(true).is_none(),
                "rows" => rows.replace(number(text)?).is_none(),
                "words" => key_words.replace(number(text)?).is_none(),
                "pids" => pids.replace(text).is_none(),
                "children" => text == "1" && children.replace(true).is_none(),
                _ => false,
            };
            if !is_first || text.is_empty() {
                return None;
            }
        }
        let command = Self {
            by,
            times: times.unwrap_or(false),
            value,
            classes: classes.unwrap_or(false),
            rows: rows?.try_into().ok()?,
            words: key_words?.try_into().ok()?,
            pids: pids.unwrap_or_default(),
            children: children.unwrap_or(false),
        };
        let are_numbers = command
            .words_of_pids()
            .all(|pid| pid.parse::<i32>().is_ok());
        let fits = match value {
            Some(_) => !command.times,
            None => !command.classes,
        };
        (are_numbers && fits).then_some(command)
    }

    fn words_of_pids(&self) -> impl Iterator<Item = &'a str> {
        self.pids.split(',').filter(|pid| !pid.is_empty())
    }

    /// Returns the processes and threads with hits that count; all count if there are none, and no
    /// children.
    pub fn pids(&self) -> impl Iterator<Item = i32> + 'a {
        self.words_of_pids().filter_map(|pid| pid.parse().ok())
    }

    /// Returns true if the key has this part.
    pub fn has(&self, part: &str) -> bool {
        self.by.split(',').any(|other| other == part)
    }
}

/// Returns the lines of a text that are not blank, without white space at their ends, each with the
/// number of bytes up to its end.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let ends = lines.scan(0_usize, |end, line| {
        *end = end.saturating_add(line.len());
        Some((line.trim_ascii(), *end))
    });
    ends.filter(|(line, _)| !line.is_empty())
}

/// Splits off the first word.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let blank = [' ', '\t'];
    let text = text.trim_start_matches(blank);
    let word = text.split_once(blank).unwrap_or((text, ""));
    (!text.is_empty()).then_some(word)
}

/// Returns a valid name of a probe.
fn name(text: &str) -> Option<&str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let good = !text.is_empty() && text.len() <= NAME_MAX && text.bytes().all(fits);
    good.then_some(text)
}

/// Parses `SYMBOL`, `SYMBOL+12` or `SYMBOL+0xc`.
fn place(text: &str) -> Option<(&str, u32)> {
    let (symbol, offset) = match text.split_once('+') {
        Some((symbol, offset)) => (symbol, number(offset)?),
        None => (text, 0),
    };
    let good = !symbol.is_empty()
        && symbol.len() <= SYMBOL_MAX
        && symbol.bytes().all(|byte| byte.is_ascii_graphic());
    good.then_some((symbol, offset))
}

fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // The standard library would accept a sign, too.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain
        .then(|| u32::from_str_radix(digits, radix).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(kind: Kind, symbol: &str, offset: u32) -> Option<Command<'_>> {
        Some(Command::Add {
            kind,
            name: "a",
            symbol,
            offset,
            args: Args::parse("", false)?,
        })
    }

    #[test]
    fn args() {
        let command = Command::parse(b"r a f  n=$arg1:u8\tr=$retval if n==1  ");
        let Some(Command::Add { args, symbol, .. }) = command else {
            panic!("{command:?}");
        };
        assert_eq!((symbol, args.text()), ("f", "n=$arg1:u8\tr=$retval"));
        assert_eq!(args.conditions_text(), "n==1");
        assert_eq!(Command::parse(b"p a f r=$retval"), None);
        assert!(Command::parse(b"p a f  ").is_some());
    }

    #[test]
    fn commands() {
        let parse = |line: &'static str| Command::parse(line.as_bytes());
        assert_eq!(parse("p a f"), add(Kind::Point, "f", 0));
        assert_eq!(parse("p\ta  f+16"), add(Kind::Point, "f", 16));
        assert_eq!(parse("p a f.cold+0xfF"), add(Kind::Point, "f.cold", 255));
        assert_eq!(parse("p a f+4294967295"), add(Kind::Point, "f", u32::MAX));
        assert_eq!(parse("r a f"), add(Kind::Return, "f", 0));
        assert_eq!(parse("r a f+0"), add(Kind::Return, "f", 0));
        assert_eq!(parse("-a.b-c"), Some(Command::Remove("a.b-c")));
        assert_eq!(parse("-*"), Some(Command::RemoveAll));
    }

    #[test]
    fn several_lines() {
        let all = |text: &'static str| lines(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(all(""), []);
        assert_eq!(all(" \n\n"), []);
        assert_eq!(all("a"), [(&b"a"[..], 1)]);
        assert_eq!(
            all("\np a f \n\n -b\nc"),
            [(&b"p a f"[..], 8), (&b"-b"[..], 13), (&b"c"[..], 14)]
        );
    }

    #[test]
    fn no_commands() {
        for line in [
            "",
            "p",
            "p a",
            "p a f g",
            "p a f g=",
            "p a f if",
            "q a f",
            "pa f",
            "P a f",
            "p a* f",
            "p a +1",
            "p a f+",
            "p a f+0x",
            "p a f+-1",
            "p a f++1",
            "p a f+1g",
            "p a f+4294967296",
            "r a f+1",
            "-",
            "- a",
            "-a b",
            "-**",
            "p a f\np b g",
            "p a f\0",
            "+a",
        ] {
            assert_eq!(Command::parse(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(Command::parse(b"p a \xff"), None);
        assert_eq!(Command::parse("p a \u{e9}".as_bytes()), None);
    }

    #[test]
    fn lengths() {
        let line = |name: usize, symbol: usize| {
            let (name, symbol) = ("n".repeat(name), "s".repeat(symbol));
            Command::parse(format!("p {name} {symbol}").as_bytes()).is_some()
        };
        assert!(line(NAME_MAX, SYMBOL_MAX));
        assert!(!line(NAME_MAX + 1, 1));
        assert!(!line(1, SYMBOL_MAX + 1));
    }

    #[test]
    fn kept() {
        let parse = |text: &'static str| KeepCommand::parse(text.as_bytes());
        let kept = parse("in flight as 0-1.2").unwrap();
        assert_eq!((kept.memory, kept.recording), ("flight", "0-1.2"));
        for bad in [
            "in flight",
            "in  as x",
            "in a b as x",
            "in a as ",
            "in a as x y",
            "by a",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        let long = format!("in a as {}", "x".repeat(RECORDING_MAX + 1));
        assert_eq!(KeepCommand::parse(long.as_bytes()), None);
    }

    #[test]
    fn tables() {
        let parse = |text: &'static str| TableCommand::parse(text.as_bytes());
        let table = parse("by comm,n times=1 rows=0x10 words=8").unwrap();
        assert_eq!(
            (table.by, table.times, table.rows, table.words),
            ("comm,n", true, 16, 8)
        );
        assert!(table.has("n") && table.has("comm") && !table.has("com"));
        assert!(!table.children && table.pids().next().is_none());
        assert!(table.value.is_none() && !table.classes);
        let table = parse("by n value=m classes=1 rows=1 words=1").unwrap();
        assert_eq!((table.value, table.classes), (Some("m"), true));
        let table = parse("by pid rows=1 words=1 pids=7,9 children=1").unwrap();
        assert!(table.children && table.pids().eq([7, 9]));
        for bad in [
            "by comm rows=1",
            "by comm words=1",
            "by rows=1 words=1",
            "by  rows=1 words=1",
            "by n rows=1 rows=1 words=1",
            "by n rows=1 words=1 more=1",
            "by n rows=1 words=1 times=0",
            "by n rows=1 words=1 value=",
            "by n rows=1 words=1 classes=1",
            "by n rows=1 words=1 value=m classes=2",
            "by n rows=1 words=1 value=m times=1",
            "p by n rows=1 words=1",
            "by n rows=-1 words=1",
            "by n rows=1 words=1 pids=1,x",
            "by n rows=1 words=1 children=2",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
