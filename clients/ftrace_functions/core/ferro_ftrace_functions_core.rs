// SPDX-License-Identifier: GPL-2.0

//! Commands of the `ferrotrace_ftrace_functions` module, each a line of text.
//!
//! ```text
//! + ADDRESS...   adds functions, by their addresses in available_filter_functions_addrs, with 0x
//! count          records their calls
//! time           records their calls when they return, with their durations
//! stop           ends the recording
//! ```

// Kbuild adds `no_std` to every crate itself.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Adds functions.
    Add(Addresses<'a>),
    /// Starts tracing.
    Start(Mode),
    /// Stops tracing.
    Stop,
}

/// Contents of a record for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The fact of the call.
    Count,
    /// The duration of the call.
    Time,
}

impl Mode {
    /// Returns the command that starts this mode.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Time => "time",
        }
    }
}

/// Text that consists of valid addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses<'a>(&'a str);

impl<'a> Addresses<'a> {
    /// Returns the addresses; at least one.
    pub fn iter(self) -> impl Iterator<Item = usize> + 'a {
        words(self.0).filter_map(address)
    }
}

impl<'a> Command<'a> {
    /// Parses a line, without its end. Returns `None` if it is not a command.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = core::str::from_utf8(line).ok()?;
        if let Some(list) = line.strip_prefix('+') {
            let all = words(list).all(|word| address(word).is_some());
            let some = words(list).next().is_some();
            return (all && some).then_some(Self::Add(Addresses(list)));
        }
        match line {
            "count" => Some(Self::Start(Mode::Count)),
            "time" => Some(Self::Start(Mode::Time)),
            "stop" => Some(Self::Stop),
            _ => None,
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|word| !word.is_empty())
}

/// Parses an address that is not 0, with `0x`.
fn address(word: &str) -> Option<usize> {
    let digits = word.strip_prefix("0x")?;
    // The standard library would accept a sign, too.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = usize::from_str_radix(digits, 16).ok()?;
    (plain && value != 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(line: &str) -> Option<Vec<usize>> {
        match Command::parse(line.as_bytes())? {
            Command::Add(addresses) => Some(addresses.iter().collect()),
            _ => None,
        }
    }

    #[test]
    fn commands() {
        assert_eq!(added("+ 0x10"), Some(vec![16]));
        assert_eq!(added("+0xfF  0x1 "), Some(vec![255, 1]));
        assert_eq!(added("+ 0xffffffffffffffff"), Some(vec![usize::MAX]));
        for mode in [Mode::Count, Mode::Time] {
            let parsed = Command::parse(mode.word().as_bytes());
            assert_eq!(parsed, Some(Command::Start(mode)));
        }
        assert_eq!(Command::parse(b"stop"), Some(Command::Stop));
    }

    #[test]
    fn no_commands() {
        for line in [
            "",
            "+",
            "+ ",
            "+ 10",
            "+ 0x",
            "+ 0x0",
            "+ 0xg",
            "+ 0x-1",
            "+ 0x+1",
            "+ 0x1 f",
            "+ 0x1\n0x2",
            "+ 0x1\t0x2",
            "+ 0x10000000000000000",
            "count ",
            "Count",
            "time 1",
            "stopped",
            "-",
        ] {
            assert_eq!(Command::parse(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(Command::parse(b"+ 0x1\xff"), None);
    }
}
