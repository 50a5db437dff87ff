// SPDX-License-Identifier: GPL-2.0

//! Patterns of names, as the kernel's `glob_match()` has them.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::kallsyms::demangled;

/// Error in a pattern.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum GlobError {
    /// Nothing at all.
    #[error(
        "a pattern is a function's name, in which * is any text, ? any character and [a-z] one of several"
    )]
    Empty,
    /// White space, or characters that no name has.
    #[error("no function's name has white space or {0:?}")]
    Character(char),
    /// A set of characters without its end.
    #[error("[ without ]")]
    Bracket,
}

/// A pattern: `*`, `?`, `[a-z]`, `[!a-z]`; other characters stand for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        if text.is_empty() {
            return Err(GlobError::Empty);
        }
        let unfit = |c: &char| !c.is_ascii_graphic() || ":\\".contains(*c);
        // Paths of Rust have colons in pairs.
        if let Some(c) = text.replace("::", "").chars().find(unfit) {
            return Err(GlobError::Character(c));
        }
        if !is_closed(text.as_bytes()) {
            return Err(GlobError::Bracket);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The characters between `[` and `]`.
struct Set<'a> {
    inverted: bool,
    members: &'a [u8],
}

impl<'a> Set<'a> {
    /// Of the text after `[`, with what follows `]`. A `]` that comes first is a member.
    fn parse(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (inverted, text) = match text.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let end = text.iter().skip(1).position(|byte| *byte == b']')? + 1;
        let (members, rest) = text.split_at_checked(end)?;
        let set = Self { inverted, members };
        Some((set, rest.get(1..)?))
    }

    fn has(&self, byte: u8) -> bool {
        let mut members = self.members;
        let found = loop {
            match members {
                [low, b'-', high, rest @ ..] => {
                    if (*low..=*high).contains(&byte) {
                        break true;
                    }
                    members = rest;
                }
                [member, rest @ ..] => {
                    if *member == byte {
                        break true;
                    }
                    members = rest;
                }
                [] => break false,
            }
        };
        found != self.inverted
    }
}

/// Returns true if each `[` of a pattern has its `]`.
pub(crate) fn is_closed(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let Some((first, more)) = rest.split_first() {
        rest = match first {
            b'[' => match Set::parse(more) {
                Some((_, more)) => more,
                None => return false,
            },
            _ => more,
        };
    }
    true
}

/// Returns true if a text matches a pattern.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on if what follows the last `*` does not match here.
    let mut back: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix(b"*") {
            back = Some((rest, text));
            pattern = rest;
            continue;
        }
        let step = match (pattern.split_first(), text.split_first()) {
            (None, None) => return true,
            (Some((b'?', rest)), Some((_, more))) => Some((rest, more)),
            (Some((b'[', rest)), Some((byte, more))) => Set::parse(rest)
                .filter(|(set, _)| set.has(*byte))
                .map(|(_, rest)| (rest, more)),
            (Some((wanted, rest)), Some((byte, more))) => (wanted == byte).then_some((rest, more)),
            _ => None,
        };
        (pattern, text) = match (step, back) {
            (Some(next), _) => next,
            // The `*` takes one more character, if there is one.
            (None, Some((after, from))) => match from.split_first() {
                Some((_, from)) => {
                    back = Some((after, from));
                    (after, from)
                }
                None => return false,
            },
            (None, None) => return false,
        };
    }
}

impl Glob {
    /// Returns true if a name matches, or the path that it stands for in Rust.
    pub fn matches(&self, name: &str) -> bool {
        let is_it = |name: &str| matches(self.0.as_bytes(), name.as_bytes());
        is_it(name) || matches!(demangled(name), Cow::Owned(path) if is_it(&path))
    }

    /// Returns true if the pattern is a plain name.
    pub fn is_name(&self) -> bool {
        !self.0.contains(['*', '?', '['])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<Glob>().unwrap().matches(name)
    }

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("vfs_read", "vfs_read"),
            ("vfs_*", "vfs_read"),
            ("vfs_*", "vfs_"),
            ("*", ""),
            ("*read", "vfs_read"),
            ("*_*d", "vfs_read"),
            ("vfs_?ead", "vfs_read"),
            ("vfs_[rw]*", "vfs_write"),
            ("vfs_[a-r]ead", "vfs_read"),
            ("vfs_[!w]*", "vfs_read"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("a*b*c", "aXbXbXc"),
            ("f.*", "f.isra.0"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("vfs_read", "vfs_readv"),
            ("vfs_read", "xvfs_read"),
            ("vfs_*", "do_vfs_read"),
            ("vfs_?", "vfs_"),
            ("vfs_[rw]", "vfs_x"),
            ("vfs_[!r]ead", "vfs_read"),
            ("a*b*c", "aXbX"),
            ("[a-c]", "d"),
            ("[c-a]", "b"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn no_patterns() {
        assert_eq!("".parse::<Glob>(), Err(GlobError::Empty));
        assert_eq!("a b".parse::<Glob>(), Err(GlobError::Character(' ')));
        assert_eq!("a:mod:b".parse::<Glob>(), Err(GlobError::Character(':')));
        assert_eq!("a:::b".parse::<Glob>(), Err(GlobError::Character(':')));
        assert_eq!(
            "\u{e9}".parse::<Glob>(),
            Err(GlobError::Character('\u{e9}'))
        );
        for text in ["[", "[]", "a[b", "[!]", "x[a]y[z"] {
            assert_eq!(text.parse::<Glob>(), Err(GlobError::Bracket), "{text}");
        }
    }

    #[test]
    fn paths_of_rust() {
        let name = "_RNvNtCs4fqI2P2rA04_12relay_engine8registry4find";
        for pattern in [
            "relay_engine::registry::*",
            "relay_engine::registry::find",
            "*::find",
            "_RNv*registry*",
        ] {
            assert!(matches(pattern, name), "{pattern}");
        }
        assert!(!matches("relay_engine::*::registry", name) && !matches("find", name));
    }

    #[test]
    fn names() {
        let is_name = |text: &str| text.parse::<Glob>().unwrap().is_name();
        assert!(is_name("f.isra.0"));
        assert!(!is_name("f*") && !is_name("f?") && !is_name("[f]"));
    }

    /// The same, by trying everything.
    fn simply(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| simply(rest, &text[at..])),
            ([b'?', rest @ ..], [_, more @ ..]) => simply(rest, more),
            ([a, rest @ ..], [b, more @ ..]) => a == b && simply(rest, more),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn as_by_trying(pattern in "[ab*?]{1,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &text), simply(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
