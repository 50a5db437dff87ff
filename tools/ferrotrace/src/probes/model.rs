// SPDX-License-Identifier: GPL-2.0

//! Probes as the kernel lists them, and the places that the user names.

#![deny(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use ferro_kprobe_events_core::probe_args::Arg;
use ferro_kprobe_events_core::probe_args::Args;
use serde::Serialize;
use serde::Serializer;
use thiserror::Error;

use crate::kallsyms::demangled;

/// The most bytes of a probe's name.
pub const NAME_MAX: usize = 63;

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An instruction.
    Probe,
    /// The return of a function.
    Return,
    /// An event of tracefs.
    Tracepoint,
}

impl Kind {
    /// Its name in the kernel's text and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Return => "return",
            Self::Tracepoint => "tracepoint",
        }
    }
}

/// Error in a place.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlaceError {
    /// Nothing, or something with white space, before the `+`.
    #[error("not of the form SYMBOL or SYMBOL+OFFSET")]
    Symbol,
    /// A path, but no function.
    #[error("in a file it has to be PATH:FUNCTION, or PATH:0xOFFSET")]
    File,
    /// No number after the `+`.
    #[error("the offset is no number up to 4294967295, decimal or with 0x")]
    Offset,
}

/// A place in the kernel's code, or in that of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The function; in a file `PATH:FUNCTION`, or `PATH:0xOFFSET` in the file.
    pub symbol: String,
    /// Bytes from its start.
    pub offset: u32,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        // A path may have a plus.
        let colon = end_of_path(text).unwrap_or(0);
        let plus = text.get(colon..).and_then(|rest| rest.find('+'));
        let (symbol, offset) = match plus.and_then(|plus| text.split_at_checked(colon + plus)) {
            Some((symbol, offset)) => {
                let offset = offset.strip_prefix('+').and_then(number);
                (symbol, offset.ok_or(PlaceError::Offset)?)
            }
            None => (text, 0),
        };
        let name = end_of_path(symbol).and_then(|colon| symbol.get(colon + 1..));
        if symbol.contains('/') && name.is_none_or(str::is_empty) {
            return Err(PlaceError::File);
        }
        // A path may have any others.
        let is_bad = |c: char| c.is_control() || c.is_ascii_whitespace();
        if symbol.is_empty() || symbol.contains(is_bad) {
            return Err(PlaceError::Symbol);
        }
        Ok(Self {
            symbol: symbol.to_owned(),
            offset,
        })
    }
}

/// Returns where the colon is that ends the path of a file. The kernel takes no path with a colon;
/// names of Rust have some.
fn end_of_path(text: &str) -> Option<usize> {
    let slash = text.rfind('/')?;
    let behind = text.get(slash..)?;
    Some(slash + behind.find(':')?)
}

pub(super) fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // from_str_radix() would accept a sign, too.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u32::from_str_radix(digits, radix).ok();
    value.filter(|_| plain)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.symbol)?;
        if self.offset != 0 {
            write!(f, "+{:#x}", self.offset)?;
        }
        Ok(())
    }
}

/// A place with the path of its function, if that is one of Rust.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a Place);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { symbol, offset } = self.0;
        let name = symbol.rsplit(':').next().unwrap_or_default();
        let before = symbol.len() - name.len();
        f.write_str(symbol.get(..before).unwrap_or_default())?;
        f.write_str(&demangled(name))?;
        match offset {
            0 => Ok(()),
            offset => write!(f, "+{offset:#x}"),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.shown())
    }
}

/// A probe's name, if it is one.
pub fn parse_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if text.is_empty() || text.len() > NAME_MAX || !text.bytes().all(fits) {
        return Err(format!(
            "a name has 1 to {NAME_MAX} letters, digits, '_', '.' and '-'"
        ));
    }
    Ok(text.to_owned())
}

/// Returns the name, in at most so many bytes of ASCII. One that is longer is cut, and a hash of it
/// tells it from others that begin the same, as names of C++ and Rust do.
pub fn short_name(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    // FNV-1a.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let mark = format!("_{hash:08x}");
    let start: String = name.chars().take(most.saturating_sub(mark.len())).collect();
    start + &mark
}

impl Place {
    /// The file, and the function there or the offset in it, if it is in a file.
    pub fn in_file(&self) -> Option<(&str, &str)> {
        let (path, name) = self.symbol.split_at_checked(end_of_path(&self.symbol)?)?;
        Some((path, name.strip_prefix(':')?))
    }

    /// The module, if it is named, and the function or the pattern in it; not of a file.
    pub fn in_module(&self) -> (Option<&str>, &str) {
        match self.symbol.split_once(':') {
            // Two colons are within a path of Rust.
            Some((module, name)) if !name.starts_with(':') => (Some(module), name),
            _ => (None, &self.symbol),
        }
    }

    /// The place as it is shown: a function of Rust by its path.
    pub fn shown(&self) -> Shown<'_> {
        Shown(self)
    }

    /// Returns true if the place is a pattern for several functions, as a path of Rust is: without
    /// the hashes of crates, those of two crates can be the same.
    pub fn is_pattern(&self) -> bool {
        self.symbol.contains(['*', '?', '[']) || self.symbol.contains("::")
    }

    /// The default name of a probe there.
    pub fn default_name(&self, kind: Kind) -> String {
        let mut end = match self.offset {
            0 => String::new(),
            offset => format!(".{offset:#x}"),
        };
        if kind == Kind::Return {
            end.push_str(".ret");
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let (file, function) = match self.in_file() {
            Some((path, function)) => (path.rsplit('/').next().unwrap_or_default(), function),
            None => ("", self.symbol.as_str()),
        };
        let dot = if file.is_empty() { "" } else { "." };
        let function = demangled(function);
        let symbol = file.chars().chain(dot.chars()).chain(function.chars());
        let symbol = symbol.map(|c| if fits(c) { c } else { '_' });
        let name: String = symbol.collect();
        short_name(&name, NAME_MAX - end.len()) + &end
    }
}

/// A probe, as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The id in the records of its hits.
    #[serde(skip)]
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Kind of the probe.
    pub kind: Kind,
    /// Its place, as it was given when it was added.
    pub place: Place,
    /// The address of that place.
    #[serde(serialize_with = "as_hex")]
    pub address: u64,
    /// How often it was hit.
    pub hits: u64,
    /// How often its handler could not be called.
    pub missed: u64,
    /// True if the probe's module, and so its code, was unloaded.
    pub gone: bool,
    /// Arguments that the probe reads, with their form in the records of its hits.
    #[serde(serialize_with = "as_texts")]
    pub args: Vec<ProbeArg>,
    /// On what conditions hits count.
    #[serde(rename = "if")]
    pub conditions: Vec<String>,
}

/// An argument of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeArg {
    /// Its name.
    pub name: String,
    /// As the kernel has it, with the name.
    pub text: String,
    /// Its type and its place.
    pub arg: Arg,
}

fn as_texts<S: Serializer>(args: &[ProbeArg], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(args.iter().map(|arg| &arg.text))
}

/// The arguments of a probe of this kind, from the kernel's text, in which a comma follows each but
/// the last.
pub(crate) fn parse_args(text: &str, kind: Kind) -> Option<Vec<ProbeArg>> {
    let words = text.replace(',', " ");
    let args = Args::parse(&words, kind == Kind::Return)?;
    let texts = words.split_ascii_whitespace();
    let args = args.iter().zip(texts).map(|((name, arg), text)| ProbeArg {
        name: name.to_owned(),
        text: text.to_owned(),
        arg,
    });
    Some(args.collect())
}

fn as_hex<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

/// Error in a list of probes.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: no good value of {key}=")]
pub struct ParseError {
    line: usize,
    key: &'static str,
}

/// Parses the kernel's list. Unknown keys are skipped.
pub fn parse_list(text: &str) -> Result<Vec<Probe>, ParseError> {
    let lines = text.lines().enumerate();
    lines
        .map(|(index, line)| {
            parse_probe(line).map_err(|key| ParseError {
                line: index + 1,
                key,
            })
        })
        .collect()
}

/// Parses a line; the error is the key.
fn parse_probe(line: &str) -> Result<Probe, &'static str> {
    let get = |key: &'static str| {
        let mut words = line.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(k, _)| *k == key).map(|(_, v)| v).ok_or(key)
    };
    fn plain<T: FromStr>(key: &'static str, text: &str) -> Result<T, &'static str> {
        text.parse().map_err(|_| key)
    }
    let address = get("address")?.strip_prefix("0x").ok_or("address")?;
    let kind = match get("kind")? {
        "probe" => Kind::Probe,
        "return" => Kind::Return,
        _ => return Err("kind"),
    };
    let conditions = get("if").unwrap_or_default();
    Ok(Probe {
        id: plain("id", get("id")?)?,
        name: parse_name(get("name")?).map_err(|_| "name")?,
        kind,
        place: plain("place", get("place")?)?,
        address: u64::from_str_radix(address, 16).map_err(|_| "address")?,
        hits: plain("hits", get("hits")?)?,
        missed: plain("missed", get("missed")?)?,
        gone: match get("state")? {
            "on" => false,
            "gone" => true,
            _ => return Err("state"),
        },
        args: parse_args(get("args").unwrap_or_default(), kind).ok_or("args")?,
        conditions: conditions
            .split(',')
            .filter(|condition| !condition.is_empty())
            .map(str::to_owned)
            .collect(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const LIST: &str = "\
id=0 name=forks kind=probe place=kernel_clone address=0xffffffff81063c90 hits=12 missed=0 state=on
id=7 name=open.ret kind=return place=do_sys_openat2 address=0xffffffff811d5f20 hits=3 missed=1 state=gone later=1
id=8 name=a kind=probe place=kernel_clone+0x10 address=0xffffffff81063ca0 hits=0 missed=0 state=on
";

    #[test]
    fn lists() {
        let list = parse_list(LIST).unwrap();
        let [forks, open, a] = &list[..] else {
            panic!("{list:?}");
        };
        assert_eq!(
            (forks.id, forks.hits, forks.kind, forks.gone),
            (0, 12, Kind::Probe, false)
        );
        assert_eq!(forks.address, 0xffff_ffff_8106_3c90);
        assert_eq!((open.kind, open.missed, open.gone), (Kind::Return, 1, true));
        assert_eq!(a.place.to_string(), "kernel_clone+0x10");
        assert!(forks.args.is_empty() && forks.conditions.is_empty());
        let line = LIST.lines().next().unwrap();
        let line = format!("{line} args=n=$arg1:u8,s=+0($arg2):string if=n==1,comm==cat\n");
        let list = parse_list(&line).unwrap();
        let args: Vec<_> = list[0]
            .args
            .iter()
            .map(|arg| (&*arg.name, &*arg.text, arg.arg.offset))
            .collect();
        assert_eq!(
            args,
            [("n", "n=$arg1:u8", 0), ("s", "s=+0($arg2):string", 1)]
        );
        assert_eq!(list[0].conditions, ["n==1", "comm==cat"]);
        let bad = line.replace("$arg1", "$bad");
        assert_eq!(
            parse_list(&bad).unwrap_err(),
            ParseError {
                line: 1,
                key: "args"
            }
        );
        assert_eq!(parse_list("").unwrap(), []);
        for (from, to, key) in [
            ("id=0", "id=-1", "id"),
            ("hits=12", "", "hits"),
            ("state=on", "state=off", "state"),
            ("0xffffffff81063c90", "12", "address"),
        ] {
            let error = parse_list(&LIST.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error, ParseError { line: 1, key });
        }
    }

    #[test]
    fn places() {
        let place = |text: &str| text.parse::<Place>();
        let is = |text: &str, symbol: &str, offset| {
            let symbol = symbol.to_owned();
            assert_eq!(place(text), Ok(Place { symbol, offset }));
        };
        is("f", "f", 0);
        is("f.cold+0x10", "f.cold", 16);
        is("f+16", "f", 16);
        is("/lib/c++.so:f+16", "/lib/c++.so:f", 16);
        is("./a:0x10", "./a:0x10", 0);
        let file = place("/a/b:c").unwrap();
        assert_eq!(file.in_file(), Some(("/a/b", "c")));
        assert_eq!(place("mod:f").unwrap().in_file(), None);
        for bad in ["/a/b", "/a/b:", "/a/b:+1", "./a"] {
            assert_eq!(place(bad), Err(PlaceError::File), "{bad}");
        }
        is("/h/\u{e9}=b/p:f+1", "/h/\u{e9}=b/p:f", 1);
        for bad in ["", "+1", "a b", "/a\tb:f"] {
            assert_eq!(place(bad), Err(PlaceError::Symbol), "{bad}");
        }
        for bad in ["f+", "f+-1", "f+0x", "f++1", "f+1g", "f+4294967296"] {
            assert_eq!(place(bad), Err(PlaceError::Offset), "{bad}");
        }
    }

    #[test]
    fn default_names_are_names() {
        let name = |text: &str, kind| text.parse::<Place>().unwrap().default_name(kind);
        assert_eq!(name("f", Kind::Probe), "f");
        assert_eq!(name("f+16", Kind::Probe), "f.0x10");
        assert_eq!(name("f", Kind::Return), "f.ret");
        assert_eq!(name("/usr/bin/a-b:f+1", Kind::Return), "a_b.f.0x1.ret");
        let long = name(&format!("m:{}+1", "x".repeat(200)), Kind::Probe);
        assert_eq!(long.len(), NAME_MAX);
        assert!(long.starts_with("m_x") && long.ends_with(".0x1"));
        // Names that begin the same, as long ones do.
        let other = name(&format!("m:{}+1", "x".repeat(201)), Kind::Probe);
        assert!(other != long && other.len() == NAME_MAX);
        assert!(parse_name(&long).is_ok());
        for bad in ["", "a b", "*", "a+b"] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }
}
